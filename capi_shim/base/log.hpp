// libllama's log, kept in a short buffer instead of written to stderr.
#pragma once

#include <string>

namespace lh {

// Initializes the backends and redirects the log; see lh_backend_init.
void backend_init(bool chain);
void backend_free();

// Removes and returns buffered lines: at most `limit` bytes of whole lines, oldest first.
std::string log_drain(size_t limit);

// Position in the log. A call stores the position at its start, to find the lines that it
// logged.
class LogMark {
 public:
  LogMark();
  // Returns the first error line since the mark, or the first warning if there is no
  // error, without its newline; "" if there is neither. libllama also warns of what does
  // no harm, such as a context shorter than the model's.
  std::string first_problem() const;
  // Returns the last error line since the mark; "" if there is none. For calls whose last
  // line names the cause.
  std::string last_error() const;

 private:
  size_t line_;
};

// Returns the level of the NEWRLLAMA_DEBUG environment variable: 0 if unset or not a
// number.
int debug_level();

}  // namespace lh
