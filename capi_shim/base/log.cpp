#include "log.hpp"

#include <cstdio>
#include <cstdlib>
#include <deque>
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
};

Log& the_log() {
  static Log log;
  return log;
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
  const size_t first = line_ > log.n_dropped ? line_ - log.n_dropped : 0;
  for (size_t i = first; i < log.lines.size(); ++i) {
    const Line& line = log.lines[i];
    if (line.level == GGML_LOG_LEVEL_ERROR || line.level == GGML_LOG_LEVEL_WARN) {
      return line.text.substr(0, line.text.find_last_not_of('\n') + 1);
    }
  }
  return "";
}

std::string LogMark::last_error() const {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  const size_t first = line_ > log.n_dropped ? line_ - log.n_dropped : 0;
  for (size_t i = log.lines.size(); i > first; --i) {
    const Line& line = log.lines[i - 1];
    if (line.level == GGML_LOG_LEVEL_ERROR) {
      return line.text.substr(0, line.text.find_last_not_of('\n') + 1);
    }
  }
  return "";
}

int debug_level() {
  const char* value = std::getenv("NEWRLLAMA_DEBUG");
  return value == nullptr ? 0 : static_cast<int>(std::strtol(value, nullptr, 10));
}

}  // namespace lh
