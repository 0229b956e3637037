"""Arguments of Megatron-LM's pretrain_gpt.py, as megatron-core 0.19.2 parses them."""

from __future__ import annotations

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.launch.files import LaunchFile, Setting, Value, as_argument_file, header
from llmhw_provision.launch.setup import Setup
from llmhw_provision.sizing.checkpoint import DALY
from llmhw_provision.sizing.launchers import (
    SPLITTING_OPTIMIZERS,
    SPLITTING_SCHEMES,
    counted_as_layers,
    no_arguments,
)

PATH = "megatron.args"
_CORE = "megatron-core 0.19.2, core/model_parallel_config.py"
_MODEL = "megatron-core 0.19.2, core/transformer/transformer_config.py"
_TRAINING = "megatron-core 0.19.2, training/arguments.py"
_CHECKPOINT = "megatron-core 0.19.2, training/config/training_config.py"


def megatron(setup: Setup) -> LaunchFile:
    """megatron.args; raises InputError for a model that pretrain_gpt.py does not build, or without steps."""
    problems = _problems(setup)
    if problems:
        raise InputError.of(problems)
    found = [
        *_spread(setup),
        *_architecture(setup),
        *_attention(setup),
        *_experts(setup),
        *_precision(setup),
        *_recompute(setup),
        *_batches(setup),
        *_data(setup),
        *_saving(setup),
    ]
    text = as_argument_file(found, header(setup.plan.identity, "Megatron-LM, pretrain_gpt.py"))
    return LaunchFile(PATH, text, tuple(found))


def _problems(setup: Setup) -> list[Problem]:
    model = setup.need.model
    has = no_arguments(model)
    found = []
    if has or model.family == "parameters":
        text = f"megatron: {model.title} has {has or 'no config.json'}, for which no arguments are written"
        found.append(Problem(text, "name a model of the Llama, Qwen, Mixtral or DeepSeek kind"))
    if setup.job.scheme not in SPLITTING_SCHEMES:
        found.append(
            Problem(f"megatron: no arguments for precision {setup.job.scheme}", f"able: {', '.join(SPLITTING_SCHEMES)}")
        )
    if setup.job.optimizer not in SPLITTING_OPTIMIZERS:
        found.append(Problem(f"megatron: no arguments for optimizer {setup.job.optimizer}", "use adamw or sgd"))
    if counted_as_layers(setup.need.model, setup.layout) is None:
        stages = setup.layout.pp * setup.layout.vpp
        text = f"megatron: {model.layers} layers, embedding and loss do not divide by {stages} pipeline chunks"
        found.append(Problem(text, f"write layout: {{pp: …}}, a divisor of {model.layers} or {model.layers + 2}"))
    if setup.steps is None:
        hint = "write launch: {steps: 10000}, or dataset: {size: …} for one pass"
        found.append(
            Problem("megatron counts optimizer steps, and neither launch.steps nor dataset.size is given", hint)
        )
    return found


def _of(source: str, name: str, value: Value, rule: str) -> Setting:
    return Setting(name, value, rule, source)


def _spread(setup: Setup) -> list[Setting]:
    of = setup.layout
    ways = f"{of.gpus} GPUs = TP {of.tp} × PP {of.pp} × CP {of.cp} × DP {of.dp}"
    found = [
        _of(_CORE, "tensor-model-parallel-size", of.tp, ways),
        _of(_CORE, "pipeline-model-parallel-size", of.pp, ways),
        _of(_CORE, "context-parallel-size", of.cp, ways),
        _of(_CORE, "sequence-parallel", of.sequence_parallel, "norms and dropout divided along the sequence too"),
        _of(_TRAINING, "use-distributed-optimizer", of.zero == 1, f"optimizer states divided over {of.shards} ranks"),
        _of(_TRAINING, "overlap-grad-reduce", of.dp > 1, "gradients are reduced while backward goes on"),
        _of(
            _TRAINING, "overlap-param-gather", of.zero == 1 and of.dp > 1, "weights are gathered while forward goes on"
        ),
        _of(_TRAINING, "distributed-timeout-minutes", 120, "one host may load or prepare longer than the others"),
    ]
    if of.vpp > 1:
        rule = f"{of.vpp} model chunks per stage: interleaved schedule"
        found.append(_of(_TRAINING, "num-virtual-stages-per-pipeline-rank", of.vpp, rule))
    for name in counted_as_layers(setup.need.model, setup.layout) or ():
        rule = f"{setup.need.model.layers} layers do not divide by {of.pp} stages: it counts as a layer"
        found.append(_of(_TRAINING, f"account-for-{name}-in-pipeline-split", True, rule))
    if of.cp > 1:
        found.append(_of(_TRAINING, "cp-comm-type", "p2p", "ring attention: keys and values go round"))
    return found


def _architecture(setup: Setup) -> list[Setting]:
    model = setup.need.model
    what = f"{model.title}, catalogue/models.yml or config.json"
    return [
        _of(_MODEL, "num-layers", model.layers, what),
        _of(_MODEL, "hidden-size", model.hidden, what),
        _of(_MODEL, "ffn-hidden-size", model.ffn or model.moe_ffn, what),
        _of(_MODEL, "normalization", "LayerNorm" if model.norm_bias else "RMSNorm", what),
        _of(_TRAINING, "swiglu", model.gated, "gate, up and down"),
        _of(_MODEL, "disable-bias-linear", not (model.output_bias or model.mlp_bias), what),
        _of(_MODEL, "add-qkv-bias", model.attention_bias, what),
        _of(_TRAINING, "untie-embeddings-and-output-weights", not model.tied, what),
        _of(_TRAINING, "position-embedding-type", "rope", "its base and scaling are read from config.json by start.sh"),
        _of(_CHECKPOINT, "vocab-size", model.vocab, what),
        _of(_TRAINING, "max-position-embeddings", max(model.max_positions, setup.need.workload.sequence), what),
    ]


def _attention(setup: Setup) -> list[Setting]:
    model = setup.need.model
    what = f"{model.title}, catalogue/models.yml or config.json"
    found = [
        _of(_MODEL, "num-attention-heads", model.heads, what),
        _of(_MODEL, "attention-backend", "auto" if setup.job.flash else "unfused", "training.flash"),
    ]
    if model.qk_norm or model.mla:
        found.append(_of(_MODEL, "qk-layernorm", True, "queries and keys are normalised"))
    if model.mla:
        return [
            *found,
            _of(_MODEL, "multi-latent-attention", True, "keys and values in one latent vector"),
            _of(_TRAINING, "q-lora-rank", model.q_lora_rank or None, what),
            _of(_TRAINING, "kv-lora-rank", model.kv_lora_rank, what),
            _of(_TRAINING, "qk-head-dim", model.qk_nope_head_dim, what),
            _of(_TRAINING, "qk-pos-emb-head-dim", model.qk_rope_head_dim, what),
            _of(_TRAINING, "v-head-dim", model.v_head_dim, what),
        ]
    found.append(_of(_MODEL, "kv-channels", model.head_dim, "values of one head"))
    if model.kv_heads != model.heads:
        rule = f"{model.heads} query heads share {model.kv_heads} heads of keys and values"
        found.append(_of(_TRAINING, "group-query-attention", True, rule))
        found.append(_of(_MODEL, "num-query-groups", model.kv_heads, rule))
    return found


def _experts(setup: Setup) -> list[Setting]:
    model, of = setup.need.model, setup.layout
    if not model.experts:
        return []
    what = f"{model.title}, catalogue/models.yml or config.json"
    found = [
        _of(_TRAINING, "num-experts", model.experts, what),
        _of(_CORE, "expert-model-parallel-size", of.ep, "expert parallel ranks of the layout"),
        _of(_CORE, "expert-tensor-parallel-size", 1, "experts are whole on their rank, as sized"),
        _of(_MODEL, "moe-router-topk", model.experts_per_token, what),
        _of(_MODEL, "moe-ffn-hidden-size", model.moe_ffn, "width of one expert"),
        _of(_MODEL, "moe-token-dispatcher-type", "alltoall", "each token goes only to its experts' ranks"),
        _of(_MODEL, "moe-grouped-gemm", True, "all experts of a rank in one kernel"),
        _of(_MODEL, "moe-permute-fusion", True, "tokens are sorted in one kernel"),
        _of(_MODEL, "moe-router-load-balancing-type", "aux_loss", "Switch Transformer, arXiv 2101.03961"),
        _of(_TRAINING, "moe-aux-loss-coeff", "0.01", "Switch Transformer, arXiv 2101.03961, section 2.2"),
    ]
    if model.shared_ffn:
        found.append(
            _of(_MODEL, "moe-shared-expert-intermediate-size", model.shared_ffn, "all shared experts together")
        )
    if model.dense_layers:
        pattern = f"([0]*{model.dense_layers}+[1]*{model.moe_layers})"
        found.append(_of(_TRAINING, "moe-layer-freq", pattern, f"{model.dense_layers} dense layers come first"))
    return found


def _precision(setup: Setup) -> list[Setting]:
    scheme = setup.job.scheme
    found = [_of(_MODEL, "transformer-impl", "transformer_engine", "sequence parallelism and FP8 need its layers")]
    if scheme != "fp32":
        found.append(_of(_TRAINING, "bf16", True, f"precision {scheme}: fp32 master weights and gradients"))
    if scheme == "fp8":
        recipe = "mxfp8" if setup.capability >= (10, 0) else "tensorwise"
        found += [
            _of(_MODEL, "fp8-format", "hybrid", "e4m3 forward, e5m2 backward"),
            _of(_MODEL, "fp8-recipe", recipe, f"compute capability {'.'.join(map(str, setup.capability))}"),
        ]
    return found


def _recompute(setup: Setup) -> list[Setting]:
    asked = setup.layout.recompute
    if asked == "none":
        return []
    if asked == "selective":
        rule = "scores are computed again: Korthikanti et al., arXiv 2205.05198"
        return [_of(_MODEL, "recompute-granularity", "selective", rule)]
    rule = "each layer keeps its input only"
    if asked == "selective-op":
        rule = "recompute selective-op is torchtitan's: full is less memory and more time than planned"
    return [
        _of(_MODEL, "recompute-granularity", "full", rule),
        _of(_MODEL, "recompute-method", "uniform", "every layer alike"),
        _of(_MODEL, "recompute-num-layers", 1, "one layer is kept and computed at a time"),
    ]


def _batches(setup: Setup) -> list[Setting]:
    of, rate, steps = setup.layout, setup.rate, setup.steps
    batch = f"{of.micro_batch} × {of.micro_batches} micro-batches × {of.dp} data-parallel ranks"
    found = [
        _of(_CHECKPOINT, "micro-batch-size", of.micro_batch, "micro-batch of the layout"),
        _of(_CHECKPOINT, "global-batch-size", setup.global_batch, batch),
        _of(_TRAINING, "seq-length", setup.need.workload.sequence, "tokens per sample of the workload"),
        _of(_TRAINING, "optimizer", {"adamw": "adam"}.get(setup.job.optimizer, "sgd"), setup.job.optimizer),
        _of(_TRAINING, "lr", f"{rate.value:g}", f"{rate.rule}; {rate.source}"),
        _of(_CHECKPOINT, "lr-decay-style", "cosine", "Llama 3, arXiv 2407.21783, section 3.4.1"),
        _of(_CHECKPOINT, "lr-warmup-fraction", 0.01, "Llama 3: 8,000 of 1,200,000 steps, rounded up"),
        _of(_TRAINING, "min-lr", f"{float(str(rate.value)) / 10:g}", "a tenth, GPT-3, arXiv 2005.14165, appendix B"),
        _of(_TRAINING, "weight-decay", 0.1, "GPT-3, arXiv 2005.14165, appendix B"),
        _of(_TRAINING, "adam-beta2", 0.95, "GPT-3, arXiv 2005.14165, appendix B"),
        _of(_TRAINING, "clip-grad", 1.0, "GPT-3, arXiv 2005.14165, appendix B"),
    ]
    if steps is not None:
        found.insert(0, _of(_CHECKPOINT, "train-iters", steps.value, steps.rule))
    return found


def _data(setup: Setup) -> list[Setting]:
    tuned = setup.need.workload.job == "sft"
    file = setup.launch.data or ("train.jsonl" if tuned else "train_text_document")
    found = [
        _of(_TRAINING, "data-path", f"{setup.data}/{file}", "launch.data in the project's data folder"),
        _of(_TRAINING, "data-cache-path", f"{setup.scratch}/cache/{setup.run}", "index files are read at random"),
        _of(_TRAINING, "split", "99,1,0", "a hundredth for validation"),
        _of(_TRAINING, "num-workers", setup.workers.value, setup.workers.rule),
        _of(_CHECKPOINT, "tokenizer-type", "SFTTokenizer" if tuned else "HuggingFaceTokenizer", "the model's own"),
        _of(_CHECKPOINT, "tokenizer-model", setup.model_path, "launch.model_path, or the project's folder of models"),
    ]
    if tuned:
        found.append(_of(_TRAINING, "sft", True, "job sft: the loss counts answers only"))
    return found


def _saving(setup: Setup) -> list[Setting]:
    where = "scratch; a copy goes to the project while training goes on" if setup.nodes == 1 else "one folder for all"
    folder = checkpoints(setup)
    return [
        _of(_CHECKPOINT, "save", folder, where),
        _of(_CHECKPOINT, "load", folder, "goes on from the last checkpoint, if there is one"),
        _of(_CHECKPOINT, "save-interval", setup.save_every.value, f"{setup.save_every.rule}; {DALY}"),
        _of(_CHECKPOINT, "ckpt-format", "torch_dist", "each rank writes its part; readable in other layouts"),
        _of(_CHECKPOINT, "async-save", True, "training goes on while a copy in host memory is written"),
        _of(_CHECKPOINT, "log-interval", 10, "steps"),
        _of(_CHECKPOINT, "log-throughput", True, "TFLOP/s per GPU beside the prediction"),
        _of(_CHECKPOINT, "tensorboard-dir", f"{setup.kept}/tensorboard", "kept with the project"),
        _of(_CHECKPOINT, "exit-signal-handler", True, "SIGTERM, as Slurm sends it, saves before it ends"),
    ]


def checkpoints(setup: Setup) -> str:
    """Folder of Megatron's checkpoints: scratch of one host, of several the project's, since all parts lie together."""
    return f"{setup.kept}/checkpoints" if setup.nodes > 1 else setup.output
