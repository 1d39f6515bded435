# Receives SIGINT from test_r.py: Rscript interrupted.R MODEL
library(llamaherd)
model <- model_load(commandArgs(TRUE)[[1]])
context <- context_create(model, n_ctx = "auto", n_threads = 1L, n_seq_max = 8)

short <- c("One fish,", "Red boats", "Two cats", "Blue skies")
long <- paste("Long prompt number", 1:100)
# The longest prompts start first: they use 7 of 8 slots until the end. Short prompts run one after
# the other in the last slot, so that a few are finished when the bar is drawn.
n_tokens <- c(rep(1, 4), rep(500, 7), rep(30, 93))
before <- as.character(generate_parallel(context, short, max_tokens = 1))

# Writes lines such as "... 4/104 updated" instead of drawing a bar.
options(cli.progress_handlers_force = "logger", cli.progress_show_after = 0)
ask <- function() {
  generate_parallel(
    context,
    c(short, long),
    max_tokens = n_tokens,
    ignore_eos = TRUE,
    progress = TRUE
  )
}
answers <- tryCatch(
  ask(),
  warning = \(cnd) cat("a warning\n"), # would have been taken for the whole answer
  interrupt = \(cnd) {
    cat(conditionMessage(cnd), "\n")
    cnd$results
  }
)
cat(sprintf(
  "caught: %d of %d, %s\n",
  sum(!is.na(answers)),
  length(answers),
  paste(sort(unique(attr(answers, "finish_reason"))), collapse = " ")
))
after <- as.character(generate_parallel(context, short, max_tokens = 1))
same <- identical(before, after) && identical(answers, last_results())
table <- as.data.frame(answers)
cut <- table$finish_reason == "cancelled"
begun <- table$n_generated_tokens > 0
cat(sprintf(
  "unfinished: %s\n",
  if (identical(which(!is.na(table$partial)), which(cut & begun))) {
    "shown"
  } else {
    "lost"
  }
))
cat(sprintf("next call: %s\n", if (same) "same" else "different"))

for (round in 1:3) {
  cat("round", round, "\n")
  ask()
}
cat("went on\n")
