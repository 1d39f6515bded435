# Receives SIGINT from test_r.py in each round: Rscript interrupted_often.R MODEL ROUNDS
library(llamaherd)
model <- model_load(commandArgs(TRUE)[[1]])
context <- context_create(model, n_ctx = "auto", n_threads = 1L, n_seq_max = 8)
short <- c("One fish,", "Red boats", "Two cats", "Blue skies")
long <- paste("Long prompt number", 1:3000)
ask <- \() as.character(generate_parallel(context, short, max_tokens = 5))
before <- ask()

for (round in seq_len(as.integer(commandArgs(TRUE)[[2]]))) {
  outcome <- tryCatch(
    {
      cat("started\n")
      generate_parallel(context, long, max_tokens = 400, ignore_eos = TRUE)
      "whole"
    },
    llamaherd_interrupt = \(cnd) {
      if ("cancelled" %in% attr(cnd$results, "finish_reason")) {
        "cut"
      } else {
        "whole"
      }
    },
    interrupt = \(cnd) "thrown away" # before it ran
  )
  same <- identical(ask(), before)
  cat("round:", outcome, if (same) "same" else "different", "\n")
}
