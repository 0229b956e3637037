"""Runs in the Python of llm-analysis: evaluates the layouts on standard input, prints seconds and counts as JSON."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from importlib.metadata import version


def main() -> None:
    """Times training analyses; imports come first and are not counted."""
    import logging

    from llm_analysis import analysis, config

    logging.getLogger("__name__").setLevel(logging.CRITICAL)
    asked = json.load(sys.stdin)
    config.populate_model_and_gpu_configs()
    recomputed = analysis.ActivationRecomputation
    levels = {"none": recomputed.NONE, "selective-op": recomputed.SELECTIVE, "full": recomputed.FULL}
    stages = [
        analysis.DSZeRO.NONE,
        analysis.DSZeRO.STAGE_1,
        analysis.DSZeRO.STAGE_2,
        analysis.DSZeRO.STAGE_3,
    ]
    runs = []
    for memory in (80, 1_000_000):
        card = replace(config.get_gpu_config_by_name(asked["gpu"]), mem_per_GPU_in_GB=memory)
        engine = analysis.LLMAnalysis(config.ModelConfig(**asked["model"]), card, flops_efficiency=0.4)
        evaluated = refused = 0
        start = time.perf_counter()
        for tp, pp, dp, zero, recompute, micro, count in asked["layouts"]:
            engine.update_parallelism_config(config.ParallelismConfig(tp_size=tp, pp_size=pp, dp_size=dp))
            try:
                engine.training(
                    batch_size_per_gpu=micro,
                    gradient_accumulation_steps=count,
                    seq_len=asked["seq_len"],
                    ds_zero=stages[zero],
                    activation_recomputation=levels[recompute],
                    mlp_gated_linear_units=True,
                )
                evaluated += 1
            except AssertionError:
                refused += 1
        seconds = time.perf_counter() - start
        runs.append({"memory_gb": memory, "seconds": seconds, "evaluated": evaluated, "refused": refused})
    print(json.dumps({"version": version("llm-analysis"), "runs": runs}))


if __name__ == "__main__":
    main()
