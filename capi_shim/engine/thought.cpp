#include "thought.hpp"

#include <algorithm>
#include <new>
#include <string_view>
#include <utility>

#include "batch_builder.hpp"
#include "client.hpp"
#include "guard.hpp"
#include "kv_cache.hpp"
#include "logit_row.hpp"
#include "statistics.hpp"

namespace lh {
namespace {

std::vector<int32_t> copy_of(const int32_t* tokens, int32_t n) {
  return n == 0 ? std::vector<int32_t>{} : std::vector<int32_t>(tokens, tokens + n);
}

void check_tokens(const lh_model& model, const char* name, const int32_t* tokens,
                  int32_t n) {
  const std::string of = name;
  require_range(("n_" + of).c_str(), n, 0, INT32_MAX);
  if (n > 0) deref(tokens, name);
  for (int32_t i = 0; i < n; ++i) {
    require_range((of + "[" + std::to_string(i) + "] of thinking").c_str(), tokens[i], 0,
                  model.n_vocab() - 1);
  }
}

// Returns the tokens of the rest of a text, without its first n_bytes bytes.
std::vector<int32_t> rest_of(const lh_model& model, const std::vector<int32_t>& tokens,
                             size_t n_bytes, std::string_view rest) {
  size_t n = 0;
  for (auto token = tokens.begin(); token != tokens.end(); ++token) {
    if (n == n_bytes) return {token, tokens.end()};
    n += model.piece(*token).size();
  }
  return rest.empty() ? std::vector<int32_t>{} : model.tokenize_inside(rest);
}

bool draws(const lh_thinking& t) { return t.budget > 0 || t.is_open == 0; }

}  // namespace

void check_thinking(const lh_thinking& t, const lh_model& model) {
  require_range("budget of thinking", t.budget, 0, INT32_MAX);
  check_tokens(model, "start", t.start, t.n_start);
  check_tokens(model, "end", t.end, t.n_end);
  check_tokens(model, "after", t.after, t.n_after);
  check_tokens(model, "closing", t.closing, t.n_closing);
  require(t.is_open != 0 || t.n_start > 0,
          "start of thinking must not be empty if the prompt does not end inside a "
          "thought");
  if (!draws(t)) return;
  require(t.n_end > 0, "end of thinking must not be empty");
  require(t.n_closing > 0, "closing of thinking must not be empty");
  const lh_sampling_params& sampling = deref(t.sampling, "sampling of thinking");
  require(sampling.grammar == nullptr && sampling.n_choices == 0,
          "sampling of thinking must have no grammar and no choices: they are the "
          "answer's");
}

int64_t room_of(const lh_thinking& t) {
  const int64_t n_opening =
      t.is_open != 0 ? int64_t{0} : int64_t{LH_MAX_THOUGHT_SPACE} + t.n_start;
  return n_opening + t.budget + LH_MAX_THOUGHT_OVERRUN + t.n_end +
         std::max(t.n_after, t.n_closing);
}

Thought::Thought(const lh_model& model, const lh_thinking& t,
                 const std::vector<int32_t>& prompt, SamplerCache& cache,
                 std::unique_ptr<Task> then, bool has_logprobs)
    : Task(Kind::kThought),
      n_vocab_(model.n_vocab()),
      budget_(t.budget),
      start_(model, copy_of(t.start, t.n_start)),
      end_(model, copy_of(t.end, t.n_end)),
      after_(model, copy_of(t.after, t.n_after)),
      closing_(copy_of(t.closing, t.n_closing)),
      then_(std::move(then)),
      free_(then_->free_answer()),
      keeps_rows_(free_ != nullptr && has_logprobs),
      is_opening_(t.is_open == 0),
      search_(end_) {
  if (!start_.empty()) at_start_ = std::make_unique<MarkerAtStart>(start_);
  if (!draws(t)) return;
  sampler_ = std::make_unique<Sampler>(model, *t.sampling, cache);
  for (const int32_t token : prompt) sampler_->see(token);
}

int32_t Thought::n_before_answer(const Client& client) const {
  return std::max(0, budget_ - client.thought->n_tokens);
}

// Starts the thought. With budget 0 the thought is closed immediately, and `closing` is
// decoded with the prompt.
void Thought::start(const StepServices& step, Client& client) {
  client.thought->is_there = !is_opening_;
  if (!end_.is_by_ids()) {
    client.thought->text = TextBuffer(std::vector<std::string>{end_.text()});
  }
  if (!sampler_) close(step, client, LH_THINKING_BY_FORCE, closing_);
}

// If there is no memory for a row, later rows are not kept either: each row has the index
// of its token.
void Thought::read(Client& client, int32_t /*i*/, float* logits, LogitRow& row) noexcept {
  if (logits == nullptr) return;
  const auto n_drawn = static_cast<size_t>(client.n_tokens() - client.n_prompt);
  const bool is_kept = keeps_rows_ || (free_ == nullptr && n_drawn == 0);
  if (is_opening_ && is_kept && rows_.size() == n_drawn) {
    try {
      rows_.emplace_back(logits, logits + n_vocab_);
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch)
    }
  }
  sampler_->read(logits, row);
}

void Thought::settle(const StepServices& step, BatchPart& part, LogitRow& row) {
  if (part.n_rows == 0) return;
  Client& client = *part.client;
  try {
    if (part.logits == nullptr) throw Error(LH_DECODE_ERROR, "libllama gave no logits");
    const int32_t token = sampler_->sample(row, step.candidates);
    if (token == Sampler::kNothingLeft) {
      throw Error(LH_SAMPLER_ERROR, sampler_->why_stuck(client.thought->text.text()));
    }
    client.state = LH_STATE_DECODE;
    client.note_first();
    if (is_opening_) {
      open(step, part, token, row);
    } else {
      go_on(step, client, token);
    }
  } catch (...) {
    client.fail(step.kv);
  }
}

// Determines whether the first tokens are a start marker.
void Thought::open(const StepServices& step, BatchPart& part, int32_t token,
                   LogitRow& row) {
  Client& client = *part.client;
  const std::string piece = step.model.piece(token);
  const auto marker =
      step.model.is_eog(token) ? MarkerAtStart::Found::kNo : at_start_->add(token, piece);
  if (marker == MarkerAtStart::Found::kNo && free_ == nullptr) {
    pass_back(step, part, row);
    return;
  }
  client.tokens.push_back(token);
  client.logits.reset();
  if (marker == MarkerAtStart::Found::kNo) {
    pass_on(step, client, row);
  } else if (marker == MarkerAtStart::Found::kYes) {
    const size_t n_behind = at_start_->n_behind();
    at_start_.reset();
    is_opening_ = false;
    rows_ = {};
    client.thought->is_there = true;
    // Text after the marker is the first text of the thought.
    if (n_behind > 0) {
      write(step, client, token, piece, piece.size() - n_behind);
    } else {
      close_if_spent(step, client);
    }
  }
}

void Thought::go_on(const StepServices& step, Client& client, int32_t token) {
  if (step.model.is_eog(token)) {
    close(step, client, LH_THINKING_BY_FORCE, closing_);
    return;
  }
  client.tokens.push_back(token);
  client.logits.reset();
  ++client.thought->n_tokens;
  step.statistics.add(client, &lh_stats::n_thinking, int64_t{1});
  write(step, client, token, step.model.piece(token), 0);
}

// Adds the text of a token, starting at byte n_before. Ends the thought if the end marker
// is complete or the budget is spent.
void Thought::write(const StepServices& step, Client& client, int32_t token,
                    std::string_view piece, size_t n_before) {
  const std::string_view text = piece.substr(n_before);
  hold(token, text);
  if (search_.add(token, text)) {
    const size_t n_marker = end_.is_by_ids() ? end_.n_tokens() : 0;
    held_.resize(held_.size() - std::min(held_.size(), n_marker));
    close(step, client, LH_THINKING_BY_MODEL, behind_marker(step.model, client, piece));
    return;
  }
  if (!at_start_) flush(*client.thought, search_.n_held());
  close_if_spent(step, client);
}

// Ends the thought if its budget is spent. If a character is incomplete, the thought
// first continues for the few tokens that complete it.
void Thought::close_if_spent(const StepServices& step, Client& client) {
  const int32_t n_over = client.thought->n_tokens - budget_;
  const bool is_spent =
      n_over >= LH_MAX_THOUGHT_OVERRUN || (n_over >= 0 && !search_.is_inside_character());
  if (is_spent) close(step, client, LH_THINKING_BY_FORCE, closing_);
}

// Holds back the text of a token until it is certain that the text does not belong to a
// marker.
void Thought::hold(int32_t token, std::string_view text) {
  held_.emplace_back(text);
  if (!at_start_) return;
  switch (at_start_->add(token, text)) {
    case MarkerAtStart::Found::kMore:
      return;
    case MarkerAtStart::Found::kYes:
      held_ = {std::string(text.substr(text.size() - at_start_->n_behind()))};
      break;
    case MarkerAtStart::Found::kNo:
      break;
  }
  at_start_.reset();
}

// Adds all text to the thought, except the text of the last n_held tokens.
void Thought::flush(WrittenThought& thought, size_t n_held) {
  const auto end =
      held_.end() - static_cast<std::ptrdiff_t>(std::min(n_held, held_.size()));
  for (auto text = held_.begin(); text != end; ++text) thought.text.append(*text);
  held_.erase(held_.begin(), end);
}

// Returns the tokens that follow an end marker. The last token may contain further text
// after the marker. If `after_` begins with this text, the token stays, and only the rest
// of `after_` follows. Otherwise the token is replaced by tokens that contain only its
// part of the marker.
std::vector<int32_t> Thought::behind_marker(const lh_model& model, Client& client,
                                            std::string_view piece) const {
  const std::vector<int32_t>& after = after_.tokens();
  const size_t n_behind = search_.n_behind();
  if (n_behind == 0) return after;
  const size_t n_marker = piece.size() - n_behind;
  const std::string_view behind = piece.substr(n_marker);
  if (!after_.is_by_ids() && after_.text().compare(0, n_behind, behind) == 0) {
    const std::string_view rest = std::string_view(after_.text()).substr(n_behind);
    std::vector<int32_t> tokens = rest_of(model, after, n_behind, rest);
    if (tokens.size() <= after.size()) return tokens;
  }
  const std::vector<int32_t> part = model.tokenize_inside(piece.substr(0, n_marker));
  if (!part.empty() && part.size() <= end_.n_tokens() + 1) {
    client.tokens.pop_back();
    client.tokens.insert(client.tokens.end(), part.begin(), part.end());
  }
  return after;
}

// Moves the tokens of the thought to the prompt.
void Thought::join_prompt(Client& client) {
  for (auto i = static_cast<size_t>(client.n_prompt); i < client.tokens.size(); ++i) {
    then_->see(client.tokens[i]);
  }
  client.n_thought = client.n_tokens() - client.n_prompt;
  client.n_prompt = client.n_tokens();
}

// Ends the thought. The client continues with the next task. If this task is a score, the
// tokens after the thought are decoded like a prompt.
void Thought::close(const StepServices& step, Client& client, lh_thinking_closed how,
                    const std::vector<int32_t>& next) {
  WrittenThought& thought = *client.thought;
  flush(thought, 0);
  thought.text.finish();
  thought.closed = how;
  step.statistics.add(client, &lh_stats::n_thoughts, int64_t{1});
  if (how == LH_THINKING_BY_FORCE) {
    step.statistics.add(client, &lh_stats::n_thoughts_closed, int64_t{1});
  }
  if (!next.empty()) client.logits.reset();
  client.tokens.insert(client.tokens.end(), next.begin(), next.end());
  join_prompt(client);
  if (then_->has_paths()) client.state = LH_STATE_PREFILL;
  Task& then = *then_;
  client.task = std::move(then_);  // destroys this object
  then.start(step, client);
}

// Called if the model has not opened a thought. The tokens generated so far become the
// first tokens of the answer.
void Thought::pass_on(const StepServices& step, Client& client, LogitRow& row) {
  const std::vector<int32_t> tokens(client.tokens.begin() + client.n_prompt,
                                    client.tokens.end());
  const std::vector<std::vector<float>> rows = std::move(rows_);
  Answer& answer = *free_;
  client.tokens.resize(static_cast<size_t>(client.n_prompt));
  client.task = std::move(then_);  // destroys this object
  for (size_t i = 0; i < tokens.size() && client.is_active(); ++i) {
    const float* logits = i < rows.size() ? rows[i].data() : nullptr;
    answer.take(step, client, tokens[i], logits, row);
  }
}

// Called if the model has not opened a thought and the next task does not accept the
// tokens. The next task then continues from the logits of the prompt's last token.
void Thought::pass_back(const StepServices& step, BatchPart& part, LogitRow& row) {
  Client& client = *part.client;
  std::vector<std::vector<float>> rows = std::move(rows_);
  Task& then = *then_;
  const bool is_at_prompt =
      client.n_tokens() == client.n_prompt ||
      (!rows.empty() && step.kv.roll_back(client.seq_id, client.n_prompt));
  client.tokens.resize(static_cast<size_t>(client.n_prompt));
  client.task = std::move(then_);  // destroys this object
  const bool has_row = is_at_prompt && !rows.empty();
  if (then.has_paths() || !has_row) client.state = LH_STATE_PREFILL;
  if (!has_row) {
    // The whole sequence is computed again.
    client.lost_at = -1;
    client.verified = false;
    step.kv.clear(client.seq_id);
  }
  then.start(step, client);
  if (!has_row || !client.is_active() || client.n_tokens() > client.n_prompt) return;
  part.logits = rows.front().data();
  then.read(client, 0, part.logits, row);
  then.settle(step, part, row);
}

// Finishes a client that ends inside its thought and therefore has no answer.
void Thought::finish(Client& client) {
  flush(*client.thought, 0);
  client.thought->text.finish();
  join_prompt(client);
  then_->finish(client);
}

}  // namespace lh
