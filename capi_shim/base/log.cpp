#include "log.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <mutex>

#include "backends.hpp"
#include "llama.h"
#include "memory.hpp"

namespace lh {
namespace {

constexpr size_t kMaxLines = 256;

struct Line {
  ggml_log_level level;
  std::string text;
};

// This state is global, because libllama's log callback is global.
struct Log {
  std::mutex mutex;
  std::deque<Line> lines;
  // number of lines removed from the front; marks include this number
  size_t n_dropped = 0;
  ggml_log_callback next = nullptr;
  void* next_data = nullptr;

  // Returns an iterator at the first kept line since a mark.
  std::deque<Line>::const_iterator first_since(size_t mark) const {
    const size_t n_before = mark > n_dropped ? mark - n_dropped : 0;
    return lines.cbegin() + static_cast<std::ptrdiff_t>(std::min(n_before, lines.size()));
  }
};

Log& the_log() {
  static Log log;
  return log;
}

auto has_level(ggml_log_level level) {
  return [level](const Line& line) { return line.level == level; };
}

std::string without_newline(const std::string& text) {
  return text.substr(0, text.find_last_not_of('\n') + 1);
}

void on_log(ggml_log_level level, const char* text, void* /*user_data*/) {
  Log& log = the_log();
  ggml_log_callback next = nullptr;
  void* next_data = nullptr;
  try {
    const std::scoped_lock lock(log.mutex);
    next = log.next;
    next_data = log.next_data;
    if (level == GGML_LOG_LEVEL_CONT && !log.lines.empty()) {
      log.lines.back().text += text;
    } else {
      log.lines.push_back({level, text});
    }
    if (log.lines.size() > kMaxLines) {
      log.lines.pop_front();
      ++log.n_dropped;
    }
  } catch (...) {
    // If there is no memory for the line, it is lost and the call continues.
    return;
  }
  if (debug_level() >= 3) std::fputs(text, stderr);
  if (next != nullptr) next(level, text, next_data);
}

void redirect_log(bool chain) {
  ggml_log_callback current = nullptr;
  void* data = nullptr;
  llama_log_get(&current, &data);
  if (current == on_log) return;
  {
    const std::scoped_lock lock(the_log().mutex);
    the_log().next = chain ? current : nullptr;
    the_log().next_data = chain ? data : nullptr;
  }
  llama_log_set(on_log, nullptr);
}

}  // namespace

void backend_init(bool chain) {
  redirect_log(chain);  // first, because ggml and its backends log how they start
  llama_backend_init();
  throw_assertions();
  load_backends();
}

void backend_free() { llama_backend_free(); }

std::string log_drain(size_t limit) {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  std::string out;
  while (!log.lines.empty() && out.size() + log.lines.front().text.size() < limit) {
    out += log.lines.front().text;
    if (!out.empty() && out.back() != '\n') out += '\n';
    log.lines.pop_front();
    ++log.n_dropped;
  }
  return out;
}

LogMark::LogMark() {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  line_ = log.n_dropped + log.lines.size();
}

std::string LogMark::first_problem() const {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  const auto first = log.first_since(line_);
  for (const auto level : {GGML_LOG_LEVEL_ERROR, GGML_LOG_LEVEL_WARN}) {
    const auto line = std::find_if(first, log.lines.cend(), has_level(level));
    if (line != log.lines.cend()) return without_newline(line->text);
  }
  return "";
}

std::string LogMark::last_error() const {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  const auto end = std::make_reverse_iterator(log.first_since(line_));
  const auto line =
      std::find_if(log.lines.crbegin(), end, has_level(GGML_LOG_LEVEL_ERROR));
  return line == end ? "" : without_newline(line->text);
}

int debug_level() {
  const char* value = std::getenv("NEWRLLAMA_DEBUG");
  return value == nullptr ? 0 : static_cast<int>(std::strtol(value, nullptr, 10));
}

}  // namespace lh
