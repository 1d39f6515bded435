// libllama's log, kept in a short buffer instead of going to stderr.
#pragma once

#include <string>

namespace lh {

// Starts the backends and takes the log over; see lh_backend_init.
void backend_init(bool chain);
void backend_free();

// Takes the buffered lines, at most `limit` bytes of whole lines, oldest first.
std::string log_drain(size_t limit);

// Remembers where the log stands, so that what one call logged can be quoted.
class LogMark {
 public:
  LogMark();
  // First error or warning line logged since, without its newline; "" if none.
  std::string first_problem() const;
  // Last error line, for calls that end with what stopped them; "" if none.
  std::string last_error() const;

 private:
  size_t line_;
};

// Level of the NEWRLLAMA_DEBUG environment variable: 0 if unset or not a number.
int debug_level();

}  // namespace lh
