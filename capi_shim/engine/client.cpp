#include "client.hpp"

#include "guard.hpp"

namespace lh {

void Client::give_back(KvCache& kv) {
  if (seq_id >= 0) kv.release(seq_id);
  seq_id = -1;
}

void Client::end(KvCache& kv, lh_finish reason, const char* why) noexcept {
  const bool ends_itself =
      reason == LH_FINISH_EOG || reason == LH_FINISH_STOP || reason == LH_FINISH_LENGTH;
  if (!keeps || !ends_itself) give_back(kv);
  finish_as(reason, why);
}

void Client::fail(KvCache& kv) noexcept {
  lh_error error;
  code = static_cast<lh_status>(translate_exception(&error));
  end(kv, LH_FINISH_ERROR, error.message);
}

void Client::finish_as(lh_finish reason, const char* why) noexcept {
  state = reason == LH_FINISH_ERROR ? LH_STATE_FAILED : LH_STATE_FINISHED;
  finish = reason;
  copy_message(why, message);
  text.finish();
  try {
    task->finish(*this);
  } catch (...) {
    lh_error error;
    code = static_cast<lh_status>(translate_exception(&error));
    state = LH_STATE_FAILED;
    finish = LH_FINISH_ERROR;
    is_complete = false;
    copy_message(error.message, message);
  }
  logits.reset();
  drop_saved();
}

size_t Client::n_stable() const { return task->hides_text() ? 0 : text.n_stable(); }

void Client::drop_saved() {
  saved = {};
  n_saved = 0;
  task->drop_saved();
}

int32_t Task::first_row(const Client& client) const { return client.n_tokens() - 1; }

float* StepServices::find_logits(int32_t i_logits) const noexcept {
  try {
    return llama_get_logits_ith(ctx, i_logits);
  } catch (...) {
    return nullptr;
  }
}

}  // namespace lh
