"""The starter model's tokenizer: boilerplate in large pieces, everything else in bytes.

It is a byte-level BPE whose vocabulary is not merged up from pairs but cut out of the chats the model will see. Merges
learned from the same text would compress it as well, but they would also join letters inside target words (`h` `ell`
`o`), and a word that falls into different pieces each time is much harder to copy than one that is always spelled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from trainer.warm_start import STOCK, Lesson

CONTEXT = 4096  # tokens: the model's positions, enough for the prompts of environments it knows nothing of
_LESSON = 512  # tokens of the longest chat that the warm start can afford
_SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
# Private-use characters: they stand for the target and for another answer in the chats that the pieces are cut from.
_TARGET, _OTHER = "\ue000", "\ue001"
# A line's end belongs to the piece before it, so that "assistant\n" is the same tokens whatever follows. Other pieces
# end before a character that is not part of a word.
_PIECE = re.compile(r"[^\n]{0,31}\n|[^\n]{1,32}(?=\W|\Z)")


def build_tokenizer(lesson: Lesson) -> Any:
    """Return a fast tokenizer with TRL's `qwen3_instruct_2507` chat template, made for the lesson's wording.

    A word in the target's place becomes one token a letter, except for the stock answers, which are one token each. Any
    other text becomes bytes where it is not boilerplate.

    Raises:
        ValueError: The lesson's prompt, tool schemas and results leave no room in the model's context.
    """
    chats = [lesson.chat(_TARGET, _TARGET), lesson.chat(_TARGET, _OTHER)]
    plain = _wrap(())
    texts = [
        plain.apply_chat_template(chat, tools=tools, tokenize=False) for chat in chats for tools in (lesson.tools, None)
    ]
    tokenizer = _wrap(_pieces(texts))
    length = max(len(tokenizer(text)["input_ids"]) for text in texts)
    if length > _LESSON:
        raise ValueError(
            f"the lesson on the tool {lesson.tool!r} is {length} tokens long and the starter model has room for "
            f"{_LESSON}: shorten its prompt, tool descriptions or results"
        )
    return tokenizer


def _pieces(texts: Iterable[str]) -> list[str]:
    stops = "|".join(map(re.escape, (_TARGET, _OTHER, *_SPECIAL, *_TAGS)))
    segments = (segment for text in texts for segment in re.split(stops, text))
    pieces = {piece for segment in segments for piece in _PIECE.findall(segment) if len(piece) > 1}
    return sorted(pieces, key=lambda piece: (-len(piece), piece))


def _pattern(piece: str) -> str:
    """Match the piece, but never a part of a word nor a word in quotes: targets stand there."""
    before = r"(?<![\w'\"])" if piece[0].isalnum() else ""
    after = r"(?!\w)" if piece[-1].isalnum() else ""
    return before + re.escape(piece) + after


def _wrap(pieces: Sequence[str]) -> Any:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from trl.chat_template_utils import qwen3_instruct_2507_chat_template

    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    entries = [*_SPECIAL, *_TAGS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    entries += [to_bytes.pre_tokenize_str(piece)[0][0] for piece in (*pieces, *STOCK)]
    vocabulary = {entry: number for number, entry in enumerate(dict.fromkeys(entries))}
    # With no merges and `ignore_merges`, what the split isolates is one token if the vocabulary has it, else bytes.
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    split = pre_tokenizers.Split(Regex("|".join(map(_pattern, pieces))), behavior="isolated")
    bpe.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens([AddedToken(token, normalized=False) for token in _SPECIAL])
    bpe.add_tokens([AddedToken(tag, normalized=False) for tag in _TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = qwen3_instruct_2507_chat_template
    return tokenizer
