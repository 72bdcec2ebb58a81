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


class InvalidLogits(MultidraftError):
    """A model produced logits that define no law: NaN, +inf, or nothing but -inf."""


class EngineError(MultidraftError):
    """Another engine, audited or measured, that failed or does not answer as it should."""


class AuditError(EngineError):
    """An engine under audit that failed, or does not answer as it should."""
