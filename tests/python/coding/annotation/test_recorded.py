"""Every recorded setting of a coding can be given to `annotate` again."""

from __future__ import annotations

import json
from typing import Any

import llamaherd as lh
import pytest
from llamaherd.coding.annotation.settings import RECORDED, checked_settings

TOPICS = lh.Codebook("Which topic?", ["Sports", "Politics"])
CHAT: dict[str, Any] = {
    "chat": True,
    "template": "{{ messages[0].content }}",
    "variables": {"mood": "calm"},
    "merge_system": True,
    "date": "2026-01-31",
}
# Together, the cases record all settings, each with a value that is not the default.
CASES: list[dict[str, Any]] = [
    {
        **CHAT,
        "method": "classify",
        "normalize": "token",
        "calibrate": "batch",
        "split": "first",
        "part_tokens": 50,
        "thinking": {"budget": 7},
        "n_thoughts": 3,
        "seed": 5,
    },
    {
        **CHAT,
        "method": "generate",
        "thinking": False,
        "seed": 7,
        "temperature": 0.5,
        "max_tokens": 12,
        "split": "majority",
    },
    {
        "method": "classify",
        "evidence": {"unit": "characters", "least": 5, "most": 50},
        "seed": 3,
        "temperature": 0.25,
        "max_tokens": 40,
    },
]


@pytest.mark.parametrize("options", CASES, ids=["classify", "generate", "evidence"])
def test_a_record_leads_to_the_same_settings(options: dict[str, Any]) -> None:
    recorded = checked_settings(TOPICS, "model", options).to_dict()
    assert options.keys() <= recorded.keys()
    again = json.loads(json.dumps(recorded))
    assert checked_settings(TOPICS, "model", again).to_dict() == recorded


def test_reproduce_knows_all_recorded_settings_and_no_others() -> None:
    recorded = {
        name
        for options in CASES
        for name in checked_settings(TOPICS, "model", options).to_dict()
    }
    assert recorded == RECORDED
