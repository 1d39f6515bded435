# One workload through R's generate_parallel(), printed as JSON; see run_r() in own.py.
#   Rscript benchmarks/bridge.R WORKLOAD.json MODEL N_THREADS SEED

suppressPackageStartupMessages(library(llamaherd))

arguments <- commandArgs(trailingOnly = TRUE)
load <- jsonlite::fromJSON(arguments[1])
model <- model_load(arguments[2])
context <- context_create(
  model,
  n_ctx = "auto",
  n_threads = as.integer(arguments[3]),
  n_seq_max = "auto"
)
seed <- as.integer(arguments[4])

# Seconds of a call in R, and the part of them before and after Python's call, for checks and for
# the conversion of prompts and results.
timed <- function(prompts, max_tokens) {
  seconds <- system.time(
    answers <- generate_parallel(
      context,
      prompts,
      max_tokens = max_tokens,
      seed = seed,
      ignore_eos = TRUE,
      progress = FALSE
    )
  )[["elapsed"]]
  list(
    texts = as.vector(answers),
    seconds = list(seconds),
    bridge_s = seconds - attr(answers, "stats")$wall_s
  )
}

invisible(timed("Hello", 2L))
result <- timed(load$prompts, as.integer(load$max_tokens))
# Equal greedy prompts are generated once: almost all of this call is conversion.
result$convert_s <- timed(rep("Yes or no?", 10000L), 1L)$bridge_s

cat(jsonlite::toJSON(result, auto_unbox = TRUE, digits = 6))
