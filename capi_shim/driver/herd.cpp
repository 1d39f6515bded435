#include "herd.hpp"

#include <algorithm>

#include "guard.hpp"
#include "seed.hpp"

namespace lh {

PrefixTree herd_prefixes(const std::vector<HerdPrompt>& prompts, int32_t max_tokens) {
  size_t longest = 0;
  std::vector<int32_t> tokens;
  std::vector<int64_t> offsets = {0};
  offsets.reserve(prompts.size() + 1);
  for (const HerdPrompt& prompt : prompts) {
    tokens.insert(tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    longest = std::max(longest, prompt.tokens.size());
  }
  const int64_t n_cells = static_cast<int64_t>(longest) + max_tokens;
  return build_prefix_tree(tokens.data(), offsets.data(),
                           static_cast<int32_t>(prompts.size()),
                           min_prefix_tokens(n_cells));
}

int32_t prefix_depth(const PrefixTree& tree) {
  std::vector<int32_t> depth;
  depth.reserve(tree.node_parent.size());
  for (const int32_t parent : tree.node_parent) {
    depth.push_back(parent < 0 ? 1 : depth[static_cast<size_t>(parent)] + 1);
  }
  return depth.empty() ? 0 : *std::max_element(depth.begin(), depth.end());
}

Herd::Herd(lh_engine& engine, std::vector<HerdPrompt> prompts, PrefixTree tree,
           const HerdSettings& settings)
    : engine_(engine),
      prompts_(std::move(prompts)),
      settings_(settings),
      tree_(std::move(tree)),
      results_(prompts_.size()),
      bad_prefix_(tree_.node_length.size(), false) {
  for (HerdResult& result : results_) result.text = "cancelled";
  // No allocation may fail after a request was submitted.
  path_.reserve(tree_.node_length.size());
  running_.reserve(prompts_.size() + tree_.node_length.size());
}

bool Herd::run() {
  engine_.reset();
  while (!aborted_ && (next_ < tree_.order.size() || !running_.empty())) {
    admit();
    if (!running_.empty()) step();
  }
  engine_.reset();
  return !aborted_;
}

int32_t Herd::n_running_prompts() const {
  return static_cast<int32_t>(std::count_if(
      running_.begin(), running_.end(), [this](int64_t id) { return !is_prefix(id); }));
}

// ---- admission ----------------------------------------------------------------------

void Herd::admit() {
  while (next_ < tree_.order.size() && n_running_prompts() < settings_.n_slots) {
    const int32_t prompt = tree_.order[next_];
    const std::string problem = why_impossible(prompt);
    if (!problem.empty()) {
      results_[static_cast<size_t>(prompt)].text = problem;
      ++next_;
      continue;
    }
    if (!prepare_prefixes(prompt)) return;
    submit_prompt(prompt);
    ++next_;
  }
  if (next_ == tree_.order.size()) release_prefixes(0);
}

std::string Herd::why_impossible(int32_t prompt) const {
  const HerdPrompt& p = prompts_[static_cast<size_t>(prompt)];
  if (!p.error.empty()) return p.error;
  if (p.tokens.empty()) return "the prompt is empty: it has no tokens";
  const auto n_prompt = static_cast<int64_t>(p.tokens.size());
  const int64_t n_ctx = settings_.n_ctx;
  if (n_prompt + settings_.max_tokens <= n_ctx) return "";
  return "the prompt has " + std::to_string(n_prompt) +
         " tokens; with max_tokens = " + std::to_string(settings_.max_tokens) +
         " it needs " + std::to_string(n_prompt + settings_.max_tokens) +
         " KV cells, but n_ctx is " + std::to_string(n_ctx);
}

std::vector<int32_t> Herd::prefixes_of(int32_t prompt) const {
  std::vector<int32_t> prefixes;
  for (int32_t node = tree_.node_of[static_cast<size_t>(prompt)]; node >= 0;
       node = tree_.node_parent[static_cast<size_t>(node)]) {
    prefixes.push_back(node);
  }
  std::reverse(prefixes.begin(), prefixes.end());
  const auto bad = std::find_if(prefixes.begin(), prefixes.end(), [this](int32_t node) {
    return bad_prefix_[static_cast<size_t>(node)];
  });
  prefixes.erase(bad, prefixes.end());
  const auto most = static_cast<size_t>(settings_.n_hold_max);
  if (prefixes.size() > most) prefixes.resize(most);
  return prefixes;
}

// Computes and holds the prefixes of a prompt, outermost first, each forked from its
// parent. Prompts are processed in depth-first order, so the next prompts can use these
// prefixes. Returns true if all prefixes are held.
bool Herd::prepare_prefixes(int32_t prompt) {
  const std::vector<int32_t> prefixes = prefixes_of(prompt);
  const auto ends =
      std::mismatch(path_.begin(), path_.end(), prefixes.begin(), prefixes.end());
  release_prefixes(static_cast<size_t>(ends.first - path_.begin()));
  if (!path_.empty() && engine_.get(prefix_id(path_.back())).state != LH_STATE_HELD) {
    return false;
  }
  if (path_.size() == prefixes.size()) return true;
  submit_prefix(prefixes[path_.size()]);
  return false;
}

void Herd::release_prefixes(size_t keep) {
  while (path_.size() > keep) {
    const int64_t id = prefix_id(path_.back());
    engine_.release(id);
    running_.erase(std::remove(running_.begin(), running_.end(), id), running_.end());
    path_.pop_back();
  }
}

void Herd::submit_prefix(int32_t node) {
  const auto i = static_cast<size_t>(node);
  lh_request request{};
  request.id = prefix_id(node);
  request.tokens = prompts_[static_cast<size_t>(tree_.node_prompt[i])].tokens.data();
  request.n_tokens = tree_.node_length[i];
  request.fork_from = path_.empty() ? -1 : prefix_id(path_.back());
  request.call = settings_.call;
  try {
    engine_.submit(request);
  } catch (const std::exception&) {
    bad_prefix_[i] = true;  // prompts that continue this prefix run without it
    return;
  }
  path_.push_back(node);
  running_.push_back(request.id);
}

void Herd::submit_prompt(int32_t prompt) {
  const auto i = static_cast<size_t>(prompt);
  lh_sampling_params sampling = settings_.sampling;
  sampling.seed = derive_seed(settings_.sampling.seed, static_cast<uint64_t>(prompt));
  lh_request request{};
  request.id = prompt;
  request.tokens = prompts_[i].tokens.data();
  request.n_tokens = static_cast<int32_t>(prompts_[i].tokens.size());
  request.max_tokens = settings_.max_tokens;
  request.fork_from = path_.empty() ? -1 : prefix_id(path_.back());
  request.sampling = &sampling;
  request.call = settings_.call;
  request.draft = n_prompts() > 1 ? 1 : 0;
  try {
    engine_.submit(request);
    running_.push_back(request.id);
  } catch (...) {
    lh_error error;
    translate_exception(&error);
    results_[i].text = error.message;
  }
}

// ---- steps --------------------------------------------------------------------------

void Herd::step() {
  lh_run_result result{};
  std::string message;
  const lh_status status = run_engine(nullptr, result, message);
  if (status == LH_ABORTED) {
    aborted_ = true;
  } else if (status == LH_DECODE_ERROR) {
    ++n_fallbacks_;
    isolate(running_);
  }
}

// Without ids: runs all clients until one of them ends. With ids: runs these clients for
// one step.
lh_status Herd::run_engine(const std::vector<int64_t>* ids, lh_run_result& result,
                           std::string& message) {
  lh_run_params params{};
  if (ids != nullptr) {
    params.ids = ids->data();
    params.n_ids = static_cast<int32_t>(ids->size());
    params.max_steps = 1;
  }
  std::vector<int64_t> events(running_.size());
  const auto capacity = static_cast<int32_t>(events.size());
  const lh_status status = engine_.run(params, events.data(), capacity, result, message);
  events.resize(static_cast<size_t>(result.n_events));
  for (const int64_t id : events) collect(id);
  return status;
}

void Herd::collect(int64_t id) {
  running_.erase(std::remove(running_.begin(), running_.end(), id), running_.end());
  const lh_client_info client = engine_.get(id);
  const bool failed = client.state == LH_STATE_FAILED;
  if (is_prefix(id)) {
    if (!failed) return;  // a held prefix stays in the engine
    const auto node = static_cast<size_t>(id - n_prompts());
    bad_prefix_[node] = true;
    const auto place = std::find(path_.begin(), path_.end(), static_cast<int32_t>(node));
    release_prefixes(static_cast<size_t>(place - path_.begin()));
    return;
  }
  HerdResult& result = results_[static_cast<size_t>(id)];
  result.failed = failed;
  // The text is copied by size, because a model may generate NUL.
  result.text = failed ? std::string(client.message)
                       : std::string(client.text, static_cast<size_t>(client.n_text));
  engine_.release(id);
}

// Handles a rejected batch: decodes the clients in halves until the client at fault is
// rejected alone. The clients of each successful half complete their step, so no work is
// lost. A temporary failure ends no client, because a client fails only after two
// rejections.
void Herd::isolate(const std::vector<int64_t>& ids) {
  const auto middle = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 2);
  for (const auto& part : {std::vector<int64_t>(ids.begin(), middle),
                           std::vector<int64_t>(middle, ids.end())}) {
    if (part.empty()) continue;
    lh_run_result result{};
    std::string message;
    const lh_status status = run_engine(&part, result, message);
    if (status == LH_ABORTED) aborted_ = true;
    if (aborted_) return;
    if (status != LH_DECODE_ERROR) continue;
    if (part.size() == 1) {
      engine_.end(part[0], LH_FINISH_ERROR, message.c_str());
      collect(part[0]);
    } else {
      isolate(part);
    }
  }
}

}  // namespace lh
