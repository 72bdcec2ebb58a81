"""The product itself under audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from multidraft._version import __version__
from multidraft.audit.samplers.answers import checked, split
from multidraft.audit.setting import Answer, Request, Setting
from multidraft.draft.named import DRAFTERS, MODEL, widest
from multidraft.engine import Decoder
from multidraft.engine.decoder import DEFAULT_VERIFIER
from multidraft.errors import AuditError, InvalidInput, MultidraftError
from multidraft.models import load_model
from multidraft.verify import VERIFIERS, get_verifier

#: Plain decoding, and what the controller chooses, in place of a verifier's name.
PLAIN, AUTO = "ar", "auto"


class DecoderSampler:
    """Samples from a ready decoder.

    Args:
        decoder: what is audited; its models need ``setting.batch`` slots.
        setting: how to sample; its models, K and L are the decoder's own affair.
        name: as shown to the user.
    """

    def __init__(self, decoder: Decoder, setting: Setting, name: str):
        self.name = name
        self._decoder = decoder
        self._setting = setting

    def __enter__(self) -> DecoderSampler:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def sample(self, requests: Sequence[Request]) -> list[Answer]:
        """See `Sampler`. Each request has the random stream of its seed."""
        answers: list[Answer] = []
        for batch in split(requests, self._setting.batch):
            params = [replace(self._setting.params, seed=request.seed) for request in batch]
            try:
                results = self._decoder.generate([list(r.tokens) for r in batch], params)
            except MultidraftError as error:
                raise AuditError(str(error)) from error
            answers += [checked(result.token_ids, self._setting) for result in results]
        return answers


class MultidraftSampler(DecoderSampler):
    """Samples with a verifier, in this process.

    Args:
        setting: models and how to sample.
        mode: a verifier, "DRAFTER+VERIFIER" (see `multidraft.draft.named`), "ar" for plain
            decoding, or "auto" for trees as large as the controller chooses, whatever K and L are.

    Raises:
        InvalidInput: an unknown verifier, no draft for one, or models that do not fit.
        ModelUnavailable, UnsupportedModel: see `load_model`.
    """

    def __init__(self, setting: Setting, mode: str):
        target = load_model(setting.target, dtype="float32", slots=setting.batch)
        shape, decoder = mode, Decoder(target)
        if mode != PLAIN:
            name, _, verifier = (DEFAULT_VERIFIER if mode == AUTO else mode).rpartition("+")
            proposer, takes = DRAFTERS[name] if name else MODEL, get_verifier(verifier).drafts
            draft = None
            if proposer.needs_draft:
                if setting.draft is None:
                    raise InvalidInput(f"{mode!r} needs a draft model.")
                draft = load_model(setting.draft, dtype="float32", slots=setting.batch)
            if mode == AUTO:
                decoder = Decoder(target, widest(draft, takes), verifier, controller="auto")
            else:
                num_drafts = 1 if takes == "one" else setting.num_drafts
                drafter = proposer.make(draft, num_drafts, setting.draft_length)
                decoder = Decoder(target, drafter, verifier)
                shape = f"{mode}, K {num_drafts}, L {setting.draft_length}"
        super().__init__(decoder, setting, f"multidraft {__version__}, {shape}")


#: What `MultidraftSampler` takes, the default first.
MODES = tuple(
    dict.fromkeys(
        [
            DEFAULT_VERIFIER,
            *VERIFIERS,
            *(
                f"{drafter}+{verifier.name}"
                for drafter in DRAFTERS
                for verifier in VERIFIERS.values()
                if verifier.drafts == "any"
            ),
            AUTO,
            PLAIN,
        ]
    )
)
