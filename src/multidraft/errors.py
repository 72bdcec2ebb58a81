"""Every error a user can cause. Each message is one sentence: what was wrong, and what to do."""


class MultidraftError(Exception):
    """Base of all errors raised on purpose; the command line prints it and exits with 2."""


class InvalidInput(MultidraftError, ValueError):
    """A parameter, prompt or combination of parts that cannot work."""


class ModelUnavailable(MultidraftError):
    """A model that cannot be had: unknown name, no network, no disk space, a broken download."""


class DataUnavailable(MultidraftError):
    """A data set that cannot be had: no network, or the hub no longer has it."""


class UnsupportedModel(MultidraftError):
    """A model or file of a kind the engine cannot run exactly."""


def refuse_out_of_memory(error: BaseException) -> None:
    """Raises ModelUnavailable where ``error`` says that memory has run out while a model loads."""
    # PyTorch's allocator for CPUs raises a plain RuntimeError.
    if isinstance(error, MemoryError) or any(
        sign in f"{type(error).__name__}: {error}"
        for sign in ("OutOfMemoryError", "out of memory", "allocate memory", "not enough memory")
    ):
        raise ModelUnavailable(
            "There is not enough memory for the model and the keys and values of its slots; load "
            "it with fewer slots or a smaller max_length (--max-length), or take a smaller model."
        ) from error


class InvalidLogits(MultidraftError):
    """A model produced logits that define no law: NaN, +inf, or nothing but -inf."""


class EngineError(MultidraftError):
    """Another engine, audited or measured, that failed or does not answer as it should."""


class AuditError(EngineError):
    """An engine under audit that failed, or does not answer as it should."""
