"""Rounds shown as they happen: the draft tree, what was accepted of it, and why it was drafted."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from multidraft.engine import Decoder, Progress
from multidraft.tree import ROOT, DraftTree, Entry

_MOST_CHILDREN = 6  # shown of a node; the accepted one always
_WIDTH = 100
_MARK = "+"  # of accepted tokens where there are no colours


class Explainer:
    """Prints each round's tree; to be called with the progress of one sequence.

    Args:
        decoder: whose tokenizer names the tokens.
        console: where to print.
    """

    def __init__(self, decoder: Decoder, console: Console):
        self._tokenizer = decoder.target.tokenizer
        self._console = console
        self._round = 0
        self._mark = mark(console)
        self._width = min(_WIDTH, console.width) if console.is_terminal else _WIDTH

    def __call__(self, progress: Progress) -> None:
        self._round += 1
        tree, accepted = progress.tree, len(progress.path)
        head = Text(f"round {self._round}", style="bold")
        count, drafted = len(tree.draft_rows), f"{len(tree) - 1} drafted"
        if len(tree) == 1:
            asked = count > 0 and progress.choice.draft_length > 0  # else a carry needed the call
            drafted = "nothing sure enough" if asked else "nothing drafted"
        calls = f" in {count} draft call{'s' * (count > 1)}" if count else ""
        head.append(f": {drafted}{calls}, {min(accepted, len(progress.token_ids))} accepted")
        if progress.choice.reason:
            head.append(f" ({progress.choice.reason})", style="dim")
        self._console.print(head, soft_wrap=True)
        shown = Tree(self._name(tree.tokens[ROOT]), guide_style="dim")
        # A path is drawn down the page, so that long drafts stay within the width.
        self._add(shown, tree, ROOT, set(progress.path))
        if len(tree) > 1:
            self._console.print(shown, width=self._width)
        if len(progress.token_ids) > accepted:
            origin = progress.origins[-1]
            name = self._name(progress.token_ids[-1])
            style = {"residual": "red", "bonus": "cyan"}[origin]
            self._console.print(Text.assemble("then ", (name, style), f" ({origin})"))

    def _add(self, shown: Tree, tree: DraftTree, node: int, accepted: set[int]) -> None:
        below = shown
        while True:
            entries = {entry.node: entry for entry in reversed(tree.entries[node])}
            children = list(reversed(entries))
            hidden = [c for c in children[_MOST_CHILDREN:] if c not in accepted]
            rest = [c for c in children if c not in hidden]
            if len(rest) == 1 and not hidden:  # a chain goes on in the same line
                node = rest[0]
                label = below.label
                assert isinstance(label, (str, Text))
                line = Text(label) if isinstance(label, str) else label
                below.label = Text.assemble(line, " ", self._label(tree, entries[node], accepted))
                continue
            for child in rest:
                branch = below.add(self._label(tree, entries[child], accepted))
                self._add(branch, tree, child, accepted)
            if hidden:
                below.add(Text(f"… {len(hidden)} more", style="dim"))
            return

    def _label(self, tree: DraftTree, entry: Entry, accepted: set[int]) -> Text:
        node, drawn = entry.node, entry.proposal is not None
        style = "green" if node in accepted else "dim"
        label = Text(self._name(tree.tokens[node]), style=style)
        if node in accepted:
            label = Text.assemble((self._mark, style), label)
        if drawn and tree.chains is None:
            label.append("~")
        if node in tree.reach:
            label.append(f" {tree.reach[node]:.0%}", style="dim")
        return label

    def _name(self, token: int) -> str:
        if self._tokenizer is None:
            return str(token)
        return repr(self._tokenizer.decode([token]))[1:-1].replace(" ", "␣") or str(token)


def mark(console: Console) -> str:
    """What is put before accepted tokens, which otherwise are green."""
    return "" if console.color_system and not console.no_color else _MARK


def legend(console: Console) -> Text:
    return Text.assemble(
        (f"{mark(console)}accepted", "green"),
        "  ",
        ("not accepted", "dim"),
        "  ~ drawn (others were chosen)  ",
        "% the drafter's guess that it is accepted",
    )
