// Constraints of a model, compiled before the thread that serves all callers needs them.
#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "constraint.hpp"
#include "llamaherd.h"
#include "model.hpp"

namespace lh {

// The constraints that were asked for last. A caller's thread compiles one when it checks
// its arguments (lh_sampling_check); the engine then finds it here and copies it. May be
// used from any thread.
class PreparedConstraints {
 public:
  static PreparedConstraints& of(const lh_model& model);
  explicit PreparedConstraints(const lh_model& model) : model_(&model) {}

  // What follows params.grammar, at its start; what must come first is known already.
  // Throws Error (LH_SAMPLER_ERROR) for a text that is no grammar.
  std::shared_ptr<const Constraint> constraint(const lh_sampling_params& params);

 private:
  struct Entry {
    int32_t kind;
    std::string text;
    std::shared_ptr<const Constraint> constraint;
  };

  template <class IsIt>
  Entry* find(const IsIt& is_it);
  void keep(Entry entry);

  const lh_model* model_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // what was asked for last comes first
};

}  // namespace lh
