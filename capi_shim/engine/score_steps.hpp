// How a score's client goes from path to path.
#pragma once

#include "batch_builder.hpp"
#include "client.hpp"
#include "kv_cache.hpp"
#include "llamaherd.h"
#include "model.hpp"
#include "score.hpp"

namespace lh {

// How the paths of a score can be put behind a prompt of n_prompt tokens.
Score::Way way_of_score(const Score& score, int32_t n_prompt, const lh_model& model,
                        const lh_engine_params& params, const BatchLimits& limits);

// Goes on after rows were read: with the rest of the path, or with the next one, for
// which what it does not share with this one leaves the cache. False: all was read.
bool go_on_with_score(Client& client, KvCache& kv);

}  // namespace lh
