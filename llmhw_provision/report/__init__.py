"""From findings to a report: JSON, HTML in English and Simplified Chinese, text for the terminal."""
