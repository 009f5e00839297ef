"""ShareGPT rows: ``{"conversations": [{"from": "human", "value": "..."}, ...]}``.

Read: one row, an array or object of rows, JSONL, a list of lists of ``{from, value}``, one
message per line; columns ``conversations``, ``conversation``, ``dialog``, ``dialogue``,
``items``. Role names in any case: ``human``/``user``; ``gpt``, ``assistant``, ``chatgpt``,
``bing``, ``bard``, ``model``, ``bot``; ``system``; ``function_call``/``tool_call`` (JSON of
``name`` and ``arguments``); ``observation``, ``tool``, ``function_response``,
``tool_response``. Unknown roles are counted, the row survives. In answers a leading
``<think>`` is reasoning and ``<tool_call>`` JSON is a call, results may stand in
``<tool_response>`` (the Hermes conventions); text around one belongs to its result, other
members inside it are ``x-dcb.response``. ``<image>`` tokens take the row's ``images`` in
order, in every message; those of a system prompt are kept beside it.

An answer in ``chosen`` or ``rejected`` (a text, a message or several) ends the conversation; the
chosen one is the session, the rejected one a branch.

A record is a message, in files of many rows also each row. Kept in ``x-dcb``: system
prompts, role names and members of other kinds, the row's other columns.

Written: one row, or an array of rows; calls and results in the Hermes form with their ids.
Lost: rejected answers, times, usage, models, title, error marks; several texts of one message
become one.
Sources: public data sets and the issues named in ``specs/chat/sharegpt-alpaca``.
"""

from __future__ import annotations

from converters.formats.sharegpt.read import ID, probe, read
from converters.formats.sharegpt.write import write
from converters.types import Capabilities, Format

__all__ = ["FORMAT"]

FORMAT = Format(
    id=ID,
    title="ShareGPT rows",
    kinds=frozenset({"json", "jsonl"}),
    probe=probe,
    read=read,
    write=write,
    evidence="B",
    suffix=".json",
    many=True,
    group="chat-json",
    capabilities=Capabilities(
        tool_results=True,
        reasoning=True,
        images=True,
        branches=True,
        notes={
            "reasoning": "a leading <think> element",
            "images": "the row's images at <image> tokens",
            "branches": "rejected answers",
        },
    ),
)
