"""plan.json of two thousand hosts is written and read again."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmhw_provision.documents import SIZE_LIMIT, dump_json, read
from llmhw_provision.errors import InputError
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.model import Plan
from llmhw_provision.workload import Workload
from tests.unit.machines import drives, machine, need, site


def test_a_plan_of_2048_hosts_is_read_again_and_no_other_file_may_be_as_large(tmp_path: Path) -> None:
    one = build_plan(need(), site(), {"ga660m-01": machine(*drives(9))})
    hosts = tuple(one.hosts[0].model_copy(update={"name": f"node-{number:04}"}) for number in range(2048))
    plan = one.model_copy(update={"hosts": hosts})
    path = tmp_path / "plan.json"
    path.write_text(dump_json(plan), encoding="utf-8")
    size = path.stat().st_size
    assert size > SIZE_LIMIT
    assert size / 9 * 24 * 2 < Plan.size_limit, "4,096 hosts with 24 drives stay below the limit"
    found = read(path, Plan)
    assert (len(found.hosts), found.hosts[-1]) == (2048, hosts[-1])
    with pytest.raises(InputError, match=r"is larger than any such file of a site \(limit 8\.0 MB\)"):
        read(path, Workload)
