// Compiled constraints of a model, prepared before the thread that serves all callers
// needs them.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "constraint.hpp"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

// Cache of the most recently used constraints. A caller's thread compiles a constraint
// when it checks its arguments (lh_sampling_check). The engine then finds the constraint
// here and copies it. Any thread.
class PreparedConstraints {
 public:
  static PreparedConstraints& of(const lh_model& model);
  explicit PreparedConstraints(const lh_model& model) : model_(&model) {}

  // Returns the constraint for params.grammar in its initial state, with forced text
  // already known. Throws Error (LH_SAMPLER_ERROR) for an invalid grammar.
  std::shared_ptr<const Constraint> constraint(const lh_sampling_params& params);

 private:
  struct Entry {
    int32_t kind;
    std::string text;
    std::shared_ptr<const Constraint> constraint;
  };

  void keep(Entry entry);

  const lh_model* model_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
};

}  // namespace lh
