"""The store: snapshots in SQLite, found by any word of them, with their versions.

>>> with open_store(home, now_ms=now) as store:
...     save(store, [snapshot], now_ms=now)
...     hits = search(store, "登录 FTS5")
"""

from dcb.store.care import Finding, integrity, vacuum
from dcb.store.rows import Row, every, find, listing, opened, stored_text, text_of
from dcb.store.saving import Saved, Sealing, known, remove, rollback, save, set_weight, versions
from dcb.store.schema import DATABASE, Store, StoreError, open_store
from dcb.store.search import Hit, search, search_as_plugin

__all__ = [
    "DATABASE",
    "Finding",
    "Hit",
    "Row",
    "Saved",
    "Sealing",
    "Store",
    "StoreError",
    "every",
    "find",
    "integrity",
    "known",
    "listing",
    "open_store",
    "opened",
    "remove",
    "rollback",
    "save",
    "search",
    "search_as_plugin",
    "set_weight",
    "stored_text",
    "text_of",
    "vacuum",
    "versions",
]
