"""The versions of a host in words, each with its reason."""

from __future__ import annotations

from llmhw_provision.plan.stack import Choice, Stack


def explained(stack: Stack) -> str:
    """Every choice of a stack: what, by which rule, from which record."""
    lines = [f"{', '.join(stack.hosts)} · {stack.distro} {stack.architecture} · {stack.gpu or 'no GPU'}"]
    for choice in stack.choices:
        lines.append(f"  {choice.topic:<20}{choice.choice}")
        lines += [f"{'':22}{text}" for text in _details(choice)]
    lines += [f"  warning             {text}" for text in stack.warnings]
    return "\n".join(lines)


def _details(choice: Choice) -> list[str]:
    lines = [choice.rule]
    lines += [f"installs {', '.join(str(item) for item in choice.packages)}"] if choice.packages else []
    lines += [f"enables {choice.stream}"] if choice.stream else []
    lines += [f"needs {', '.join(choice.needs)}"] if choice.needs else []
    lines += [f"kept by {choice.lock}"] if choice.lock else []
    lines += [f"loads {', '.join(choice.modules_load)}"] if choice.modules_load else []
    lines += [f"replaces {', '.join(choice.replaces)}"] if choice.replaces else []
    lines += [f"no other repository may give {', '.join(choice.excludes)}"] if choice.excludes else []
    lines += [f"does not take {', '.join(choice.leaves)} from there"] if choice.leaves else []
    return [*lines, f"[{choice.confidence}, {choice.date}] {choice.source}"]
