"""The product itself under audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from multidraft._version import __version__
from multidraft.audit.samplers.answers import checked, split
from multidraft.audit.setting import Answer, Request, Setting
from multidraft.draft import ModelDrafter
from multidraft.engine import Decoder
from multidraft.errors import AuditError, InvalidInput, MultidraftError
from multidraft.models import load_model
from multidraft.verify import get_verifier

#: Plain decoding, in place of a verifier's name.
PLAIN = "ar"


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
    """Samples with a verifier, in this process; "ar" is plain decoding.

    Raises:
        InvalidInput: an unknown verifier, no draft for one, or models that do not fit.
        ModelUnavailable, UnsupportedModel: see `load_model`.
    """

    def __init__(self, setting: Setting, verifier: str):
        target = load_model(setting.target, dtype="float32", slots=setting.batch)
        mode, decoder = PLAIN, Decoder(target)
        if verifier != PLAIN:
            num_drafts = 1 if get_verifier(verifier).drafts == "one" else setting.num_drafts
            if setting.draft is None:
                raise InvalidInput(f"The verifier {verifier!r} needs a draft model.")
            draft = load_model(setting.draft, dtype="float32", slots=setting.batch)
            decoder = Decoder(
                target, ModelDrafter(draft, num_drafts, setting.draft_length), verifier
            )
            mode = f"{verifier}, K {num_drafts}, L {setting.draft_length}"
        super().__init__(decoder, setting, f"multidraft {__version__}, {mode}")
