"""The terms of advice: what each framework calls something, and words that fit every one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DEFAULT: Final = ""
"""The column of words for a framework without its own."""
_Columns = dict[str, str]


def _term(default: str, *, keras: str = "", trees: str = "", **columns: str) -> _Columns:
    """Return the columns of a term.

    Args:
        keras: That of TensorFlow, too, unless it has its own.
        trees: That of XGBoost and LightGBM.
    """
    shared = {"keras": keras, "tensorflow": keras, "xgboost": trees, "lightgbm": trees}
    return {DEFAULT: default, **{name: text for name, text in shared.items() if text}, **columns}


_LOSSES: Final = {
    "bce": _term(
        "binary cross entropy of probabilities",
        torch="BCELoss",
        keras="BinaryCrossentropy",
        mxnet="SigmoidBCELoss(from_sigmoid=True)",
    ),
    "bce_with_logits": _term(
        "binary cross entropy of logits",
        torch="BCEWithLogitsLoss",
        keras="BinaryCrossentropy(from_logits=True)",
        jax="optax.sigmoid_binary_cross_entropy",
        mxnet="SigmoidBCELoss",
    ),
    "bce_in_place_of_logits": _term(
        "binary cross entropy of probabilities",
        torch="BCELoss in place of BCEWithLogitsLoss",
        keras="from_logits=False",
        mxnet="from_sigmoid=True",
    ),
    "cross_entropy": _term(
        "cross entropy of logits",
        torch="CrossEntropyLoss",
        keras="CategoricalCrossentropy(from_logits=True)",
        jax="optax.softmax_cross_entropy",
        mxnet="SoftmaxCELoss",
    ),
    "cross_entropy_of_logits": _term(
        "a cross entropy that takes logits", keras="a cross entropy that takes logits (from_logits=True)"
    ),
    "nll_of_log_softmax": _term(
        "the negative logarithm of its output for the true class",
        torch="NLLLoss on its log_softmax",
        keras="from_logits=False",
        mxnet="SoftmaxCELoss(from_logits=True) on its log_softmax",
    ),
    "class_indices": _term(
        "class indices (for cross entropy)",
        torch="class indices (CrossEntropyLoss)",
        keras="class indices (SparseCategoricalCrossentropy)",
        jax="class indices (optax.softmax_cross_entropy_with_integer_labels)",
        mxnet="class indices (SoftmaxCELoss)",
    ),
    "poisson_of_rates": _term(
        "a Poisson loss of the rate itself", torch="log_input=False", keras="losses.Poisson", mxnet="from_logits=False"
    ),
    "log_labels": _term("exp of log-probabilities", torch="kl_div(log_target=True) for log-probabilities"),
    "loss_call": _term("loss(predictions, labels)", keras="loss(labels, predictions)"),
    "weighted_loss": _term(
        "a loss weighted by class",
        torch="a loss weighted by class (weight=1/frequency)",
        keras="a loss weighted by class (class_weight in fit())",
        trees="a loss weighted by class (scale_pos_weight)",
    ),
    "sampled_classes": _term(
        "more examples of it in each epoch", torch="a WeightedRandomSampler", trees="larger weights of its samples"
    ),
}
_SHAPES: Final = {
    "equal_shapes": _term(
        "predictions.squeeze(1), or labels[:, None]",
        torch="predictions.squeeze(1), or labels.unsqueeze(1)",
        keras="labels of shape (N, 1)",
        mxnet="labels.expand_dims(1)",
    ),
    "softmax_over_classes": _term("softmax(axis=1), or axis=-1", torch="softmax(dim=1), or dim=-1"),
    "axis": _term("axis", torch="dim"),
    "last_step_of_sequence": _term("the last step of a sequence alone", keras="return_sequences=False"),
}
_LAYERS: Final = {
    "he_normal": _term(
        "He-normal", torch="kaiming_normal_", keras="he_normal", jax="nn.initializers.he_normal", mxnet="init.MSRAPrelu"
    ),
    "xavier_normal": _term(
        "Xavier-normal",
        torch="xavier_normal_",
        keras="glorot_normal",
        jax="nn.initializers.glorot_normal",
        mxnet="init.Xavier",
    ),
    "he_uniform": _term(
        "He-uniform",
        torch="kaiming_uniform_",
        keras="he_uniform",
        jax="nn.initializers.he_uniform",
        mxnet="init.MSRAPrelu",
    ),
    "xavier_uniform": _term(
        "Xavier-uniform",
        torch="xavier_uniform_",
        keras="glorot_uniform",
        jax="nn.initializers.glorot_uniform",
        mxnet="init.Xavier",
    ),
    "drawn_by_default": _term(
        "as libraries draw them by default",
        torch="as PyTorch draws them by default",
        keras="as Keras draws them by default",
    ),
    "batch_norm": _term(
        "a batch normalization", torch="a BatchNorm", keras="a BatchNormalization", mxnet="a BatchNorm"
    ),
    "normalized_images": _term(
        "a normalization (mean, std)",
        torch="transforms.Normalize(mean, std)",
        keras="layers.Normalization(mean=mean, variance=std**2)",
        mxnet="transforms.Normalize(mean, std)",
    ),
    "forward": _term("the model", torch="forward()", keras="call()", mxnet="forward()"),
    "split_of_sorted": _term(
        "a random split, stratified by the class; usually the file is sorted by the class, and its first or last part "
        "is the validation",
        keras="a random split, stratified by the class, or arrays that are shuffled before fit(); usually they are "
        "sorted by the class, and validation_split takes the last part as it is",
    ),
    "steps_in_train_mode": _term(
        "the training mode in the train step; usually it was left for a validation, and not entered again",
        torch="model.train() at the start of each epoch, or after validation; usually model.eval() was called for "
        "validation and never reverted",
        keras="training=True where the train step calls the model; usually a loop or a train_step of one's own leaves "
        "it out, or a model does not pass it on to its layers",
        jax="the argument for training where the train step calls the model, or model.train() after a model.eval(); "
        "usually the argument was left out, or validation has changed the mode",
    ),
    "train_mode": _term("the training mode", torch="model.train()"),
    "eval_mode": _term("the evaluation mode", torch="model.eval()"),
    "without_gradients": _term("computing no gradients", torch="torch.no_grad()"),
}
_GRADIENTS: Final = {
    "clip_norm_to": _term(
        "their norm to",
        torch="clip_grad_norm_ to",
        keras="clipnorm of",
        jax="optax.clip_by_global_norm to",
        mxnet="gluon.utils.clip_global_norm to",
    ),
    "clip_gradients": _term(
        "clipping the norm of all gradients to 1.0 before each update",
        torch="clip_grad_norm_(model.parameters(), 1.0) before optimizer.step()",
        keras="clipnorm=1.0 in the optimizer",
        jax="optax.clip_by_global_norm(1.0) before the optimizer",
        mxnet="gluon.utils.clip_global_norm to 1.0 before trainer.step()",
    ),
    "unscale": _term(
        "gradients divided by the loss scale before they are clipped",
        torch="scaler.unscale_(optimizer) before clip_grad_norm_",
        mxnet="amp.unscale(trainer) before gluon.utils.clip_global_norm",
    ),
    "wide_precision": _term(
        "bfloat16 or a loss scale",
        torch="bfloat16 or GradScaler",
        keras="bfloat16 or LossScaleOptimizer",
        mxnet="float32 or amp.init_trainer",
    ),
    "reset_gradients": _term(
        "gradients set to zero before each backward pass",
        torch="optimizer.zero_grad() before each backward pass, or model.zero_grad() where several optimizers share "
        "the model",
        mxnet='collect_params().zero_grad() before each backward pass, or grad_req="write"',
    ),
    "parameters_to_optimizer": _term(
        "passing all parameters to the optimizer",
        torch="passing model.parameters() to the optimizer",
        keras="compile()",
        jax="optimizer.init() on the parameters",
        mxnet="a Trainer with net.collect_params()",
    ),
    "making_the_optimizer": _term("making the optimizer", jax="initializing the optimizer's state"),
    "freeze": _term(
        "taking it out of the optimizer",
        torch="requires_grad_(False)",
        keras="trainable=False",
        jax="optax.set_to_zero",
        mxnet='grad_req="null"',
    ),
    "unfreeze": _term(
        "updates for the layers that are to be trained",
        torch="requires_grad_(True) for the layers that are to be trained, before they go to the optimizer",
        keras="trainable=True for the layers that are to be trained, before compile()",
        mxnet='grad_req="write" for the layers that are to be trained, before the Trainer',
    ),
    "is_trained": _term(
        "it is not frozen",
        torch="requires_grad is set",
        keras="trainable is True",
        mxnet='grad_req is not "null"',
    ),
    "cuts": _term(
        "a cut of the graph",
        torch="detach(), .data, no_grad(), checkpoint(use_reentrant=True)",
        keras="stop_gradient(), numpy()",
        jax="stop_gradient()",
        mxnet="detach(), asnumpy()",
    ),
    "cuts_of_values": _term(
        "a cut of the graph, a new array",
        torch="detach(), .data, item(), no_grad(), a new tensor with requires_grad=True",
        keras="stop_gradient(), numpy(), a new tensor",
        jax="stop_gradient(), a new array",
        mxnet="detach(), asnumpy(), asscalar(), a new array",
    ),
    "cut": _term(
        "a cut of the graph", torch="a detach()", keras="a stop_gradient()", jax="a stop_gradient()", mxnet="a detach()"
    ),
    "whole_checkpoints": _term(
        "gradient checkpointing that passes gradients on to the parameters within it",
        torch="gradient checkpointing with use_reentrant=False (of Transformers also enable_input_require_grads())",
    ),
    "to_number": _term("float() of", torch="float() or detach()", keras="float() or numpy() of", mxnet="asscalar() of"),
    "kept_graphs": _term(
        "keeps the arrays of each step",
        torch="keeps the graph of each",
        keras="keeps the tensors of each step",
    ),
    "kept_tensors": _term("keeps arrays of all steps alive", torch="keeps whole graphs alive"),
    "no_graph_in_evaluation": _term("no arrays kept in evaluation", torch="no_grad in evaluation"),
}
_SCHEDULES_AND_DATA: Final = {
    "schedule_floor": _term(
        "a floor of it",
        torch="a floor (eta_min, min_lr)",
        keras="a floor (alpha, min_lr)",
        jax="a floor (end_value, alpha)",
        mxnet="a floor (final_lr)",
    ),
    "short_schedule": _term(
        "the schedule was given a number of epochs, though it counts batches",
        torch="scheduler.step() is called after each batch, though the schedule counts epochs",
    ),
    "more_loader_workers": _term(
        "loading in more threads or processes of their own",
        torch="more num_workers",
        keras="prefetch() of the data set, num_parallel_calls in its map()",
        mxnet="more num_workers",
    ),
    "first_loader_workers": _term(
        "loading in threads or processes of their own",
        torch="a num_workers of the DataLoader above 0, which loads in the training process itself",
        mxnet="a num_workers of gluon.data.DataLoader above 0, which loads in the training process itself",
    ),
    "loader_workers": _term(
        "a number of loader processes such",
        torch="a num_workers of the DataLoader so",
        mxnet="a num_workers of gluon.data.DataLoader so",
    ),
    "where_it_hangs": _term(
        "NCCL_DEBUG=INFO where NCCL is used", torch="NCCL_DEBUG=INFO or num_workers=0", mxnet="num_workers=0"
    ),
    "shuffle": _term(
        "a permutation of the examples",
        torch="shuffle=True in the DataLoader",
        keras="shuffle=True in fit(), shuffle() of the data set",
        mxnet="shuffle=True in gluon.data.DataLoader",
    ),
    "similar_lengths": _term(
        "batches of sequences of similar length",
        torch="batches of sequences of similar length (group_by_length)",
        tensorflow="batches of sequences of similar length (bucket_by_sequence_length)",
    ),
    "one_process_per_gpu": _term("one process for each GPU", torch="DistributedDataParallel in place of DataParallel"),
}
_TREES: Final = {
    "min_gain": _term("gamma", lightgbm="min_gain_to_split"),
}
_CALLBACKS: Final = "cheaper or less frequent metrics and callbacks: they run after each round"
_BOTTLENECKS: Final = {
    "faster_input": _term(
        "reading the next batches in threads or processes of their own, then cheaper or cached preprocessing",
        torch="more num_workers in the DataLoader, then cheaper or cached preprocessing",
        tensorflow="prefetch(tf.data.AUTOTUNE) and map(…, num_parallel_calls=tf.data.AUTOTUNE), then cache()",
        jax="a loader with workers that prefetches batches (grain, torch.utils.data), then cached preprocessing",
        mxnet="more num_workers in gluon.data.DataLoader, then cheaper or cached preprocessing",
        trees=_CALLBACKS,
    ),
    "read_ahead": _term(
        "reading ahead: a thread that prefetches batches",
        torch="reading ahead: torch.utils.data.DataLoader with num_workers, or a thread that prefetches batches",
        tensorflow="reading ahead: a tf.data.Dataset with prefetch(tf.data.AUTOTUNE)",
        jax="reading ahead: a loader with workers (grain, torch.utils.data), or a thread that prefetches",
        mxnet="reading ahead: gluon.data.DataLoader with num_workers, or a thread that prefetches batches",
        trees=_CALLBACKS,
    ),
    "less_host_work": _term(
        "cheaper or cached preprocessing; py-spy shows it",
        torch="torch.utils.data.DataLoader with num_workers, then cheaper or cached preprocessing; py-spy shows them",
        tensorflow="fewer or cheaper callbacks; where batches are made in Python, a tf.data.Dataset with prefetch",
        jax="a loader with workers (grain, torch.utils.data), then cheaper preprocessing; py-spy shows it",
        mxnet="gluon.data.DataLoader with num_workers, then cheaper or cached preprocessing; py-spy shows them",
        trees=_CALLBACKS,
    ),
    "find_blocked": _term(
        "py-spy or leadline profile on what that phase waits for: locks, files, the network, other processes",
        trees=_CALLBACKS,
    ),
    "less_overhead": _term(
        "--preset light, fewer rules or a smaller --budget; longer runs have a smaller share",
        **dict.fromkeys(
            ("tensorflow", "jax"),
            "a longer run, since capture programs are compiled once; fewer rules and --preset light compile less",
        ),
    ),
    "less_communication": _term(
        "fewer, larger collectives",
        torch="gradient accumulation with no_sync(), larger buckets (bucket_cap_mb) or fewer, larger collectives",
        tensorflow="a larger batch per replica, or gradient_accumulation_steps: fewer, larger collectives",
        jax="gradient accumulation or another sharding: fewer, larger collectives",
        mxnet="a larger batch per worker, or compression_params of gluon.Trainer",
        trees="fewer workers with more cores each: histograms are exchanged at each level of a tree",
    ),
    "faster_compute": _term(
        "a lower precision, then a larger batch or a faster device",
        torch="torch.compile, on a GPU also mixed precision (torch.autocast), then a larger batch or a faster device",
        tensorflow="jit_compile=True, on a GPU also mixed precision (keras.mixed_precision), then a larger batch or a "
        "faster device",
        jax="bfloat16, then a larger batch or a faster device",
        mxnet="hybridize(), on a GPU also mixed precision (mxnet.contrib.amp), then a larger batch or a faster device",
        trees="all cores (nthread) or a GPU (device='cuda'), then a smaller max_bin or max_depth, or subsample below 1",
    ),
    "less_memory": _term(
        "float() of what is kept from step to step, then a smaller batch",
        torch="float() or detach() what is kept from step to step, then a smaller batch or activation checkpointing",
        tensorflow="float() or numpy() of what is kept from step to step, then a smaller batch",
        jax="float() of what is kept from step to step, then a smaller batch or jax.checkpoint",
        mxnet="asscalar() of what is kept from step to step, then a smaller batch",
        xgboost="32-bit data, a smaller max_bin, and a QuantileDMatrix (XGBoost)",
        lightgbm="32-bit data and a smaller max_bin",
    ),
    "faster_copies": _term(
        "copying the next batch while the current one is computed",
        torch="pin_memory=True and .to(device, non_blocking=True)",
        tensorflow="a tf.data.Dataset whose last step is prefetch(tf.data.AUTOTUNE)",
        jax="jax.device_put of the next batch while the current one is computed",
        mxnet="pin_memory=True in gluon.data.DataLoader",
        trees=_CALLBACKS,
    ),
    "faster_checkpoints": _term(
        "saving less often",
        torch="saving less often, or asynchronously (torch.distributed.checkpoint.async_save)",
        tensorflow="saving less often, or asynchronously (tf.train.CheckpointOptions(enable_async=True))",
        jax="saving less often, or asynchronously (orbax.checkpoint.AsyncCheckpointer)",
    ),
    "less_between_phases": _term(
        "py-spy or leadline profile on what the loop does between its phases: logging, metrics, Python",
        torch="py-spy or leadline profile on what the loop does between its phases: logging, .item(), metrics, Python",
        tensorflow="py-spy or leadline profile on what runs between the steps: callbacks, logging, metrics, Python",
        jax="py-spy or leadline profile on what runs between the steps: logging, float() of losses, metrics",
        mxnet="py-spy or leadline profile on what the loop does between its phases: logging, asnumpy(), metrics",
        trees=_CALLBACKS,
    ),
    "busier_gpu": _term(
        "a larger batch, and no reading of numbers in the loop: the GPU waits for Python",
        torch="torch.compile or CUDA graphs, a larger batch, and no .item() in the loop: the GPU waits for Python",
        tensorflow="jit_compile=True, steps_per_execution and a larger batch: the GPU waits for Python",
        jax="lax.scan over several steps, a larger batch, and no float() in the loop: the GPU waits for Python",
        mxnet="hybridize(static_alloc=True), a larger batch, and no asnumpy() in the loop: the GPU waits for Python",
        trees=_CALLBACKS,
    ),
}
TERMS: Final[Mapping[str, Mapping[str, str]]] = {
    **_LOSSES,
    **_SHAPES,
    **_LAYERS,
    **_GRADIENTS,
    **_SCHEDULES_AND_DATA,
    **_TREES,
    **_BOTTLENECKS,
}
"""What each framework calls something, by the name of the term."""
