// A check of a message that shows both texts if it fails.
#pragma once

#include <doctest/doctest.h>

#include <string>

inline bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}
