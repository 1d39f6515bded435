"""Conversations of `fake_r`: the answer to a question is "<question>!".

The question "slow" ends only when it is cancelled, and "fail" fails. With the setting
`thinking` a thought precedes the answer.
"""

Job = None  # fake_r's

__all__ = [
    "chat_ask",
    "chat_ask_all",
    "chat_cancel",
    "chat_create",
    "chat_forget",
    "chat_fork",
    "chat_read",
    "chat_result",
    "chat_set_system",
    "chat_turns",
    "chat_undo",
]


class Chat:
    def __init__(self, system, turns, settings):
        self.system = system
        self.turns = [dict(turn) for turn in turns]
        self.settings = dict(settings)
        self.is_closed = False


class Reply:
    def __init__(self, chat, text, settings):
        self.chat, self.text = chat, text
        thinks = {**chat.settings, **dict(settings)}.get("thinking")
        self.thought = "Hm. " if thinks else None
        self.pieces = [(self.thought, "thinking")] if thinks else []
        self.pieces += [(text, "answer")] + [("!", "answer")] * (text != "slow")
        self.is_cancelled = False

    @property
    def is_done(self):
        return self.text != "slow" or self.is_cancelled

    @property
    def written(self):
        return "".join(text for text, kind in self.pieces if kind == "answer")


def chat_create(context, system, turns, settings):
    return {"python": Chat(system, turns, settings)}


def chat_ask(chat, text, settings):
    if text is None:
        text = chat.turns[-2]["content"]
        chat.turns = chat.turns[:-2]
    return {"reply": Reply(chat, text, settings)}


def chat_read(reply, n_read, timeout_s):
    new = reply.pieces[n_read:]
    return {
        "texts": [text for text, _ in new],
        "kinds": [kind for _, kind in new],
        "done": reply.is_done,
    }


def chat_cancel(reply):
    reply.is_cancelled = True


def chat_result(reply):
    if reply.text == "fail":
        raise RuntimeError("the prompt failed")
    turn = {"role": "assistant", "content": reply.written}
    if reply.thought:
        turn["reasoning_content"] = reply.thought
    if reply.is_cancelled:
        turn["interrupted"] = True
    reply.chat.turns += [{"role": "user", "content": reply.text}, turn]
    return {
        "text": None if reply.is_cancelled else reply.written,
        "partial": reply.written if reply.is_cancelled else None,
        "thinking": reply.thought,
        "n_thinking_tokens": 2 if reply.thought else 0,
        "thinking_complete": True if reply.thought else None,
        "finish_reason": "cancelled" if reply.is_cancelled else "stop",
        "complete": not reply.is_cancelled,
        "n_prompt_tokens": 5,
        "n_generated_tokens": 2,
        "n_computed_tokens": 3,
        "seed": 4e9,
    }


def chat_turns(chat):
    return {"system": chat.system, **_columns(chat.turns)}


def chat_set_system(chat, text):
    chat.system = text


def chat_undo(chat):
    gone, chat.turns = chat.turns[-2:], chat.turns[:-2]
    return _columns(gone)


def chat_forget(chat, n):
    gone, chat.turns = chat.turns[: 2 * n], chat.turns[2 * n :]
    return _columns(gone)


def chat_fork(chat, n):
    return {"pythons": [Chat(chat.system, chat.turns, chat.settings) for _ in range(n)]}


def chat_ask_all(chat, texts, settings):
    return {"job": Job(texts, {})}


def _columns(turns):
    return {
        "role": [turn["role"] for turn in turns],
        "content": [turn["content"] for turn in turns],
        "thinking": [turn.get("reasoning_content") for turn in turns],
        "interrupted": [turn.get("interrupted", False) for turn in turns],
    }
