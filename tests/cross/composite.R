# Receives SIGINT from test_r.py while variants run: Rscript composite.R MODEL
library(llamaherd)
model <- model_load(commandArgs(TRUE)[[1]])
context <- context_create(model, n_threads = 1L, n_seq_max = 8)
data <- data.frame(text = sprintf("Text %d says this", 1:3000))
book <- codebook("Which?", c("a", "b", "c"))

# Writes lines such as "... 4/800 updated" instead of drawing a bar.
options(cli.progress_handlers_force = "logger", cli.progress_show_after = 0)
results <- tryCatch(
  robustness(data, text, book, context, orders = 3, progress = TRUE),
  interrupt = \(cnd) {
    cat(conditionMessage(cnd), "\n")
    cnd$results
  }
)
running <- attr(results, "interrupted")
cat(sprintf(
  "finished: %s of %d texts; running: %s\n",
  toString(results$summary$variant),
  nrow(results$labels),
  is.data.frame(running) && nrow(running) == 3000 && anyNA(running$label)
))
cat("kept:", identical(results, last_results()), "\n")
cat(
  "next call:",
  class(compare_pairs(c("a", "b", "c"), "Which?", context))[[1]],
  "\n"
)
