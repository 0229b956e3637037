"""Simplified Chinese texts of the checks of python_env; `chinese.py` holds the others."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words

PYTHON: dict[str, Words] = {
    "python-env": Words(
        "Python 环境 {subject} 与锁定文件一致",
        "文件被删除或被人工安装了其他软件包，或断电后留下空文件",
        "执行 apply：它就地修复相关软件包，并将其从 uv 的缓存中清除",
    ),
    "python-env/absent": Words(
        "Python 环境 {subject} 与锁定文件一致",
        "尚未执行 apply 或执行中断，或 scratch 丢失，环境随之丢失",
        "执行 apply：它按锁定文件重新安装",
    ),
    "python-env/other": Words(
        "Python 环境 {subject} 与锁定文件一致",
        "链接被人工切换，或方案更换锁定文件后尚未执行 apply",
        "执行 apply；如要保留之前的环境，在 site.yaml 中写 use: previous，然后重新 plan",
    ),
    "python-import": Words(
        "{subject} 的主要模块可以导入",
        "缺少系统库，或某个软件包针对的 CUDA 与 torch 不同",
        "手动执行证据中的命令：最后几行会指出模块和库",
    ),
}
