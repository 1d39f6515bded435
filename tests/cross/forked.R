# Prints the errors in child processes that were forked from an R session with a model:
#   Rscript forked.R MODEL.gguf
library(llamaherd)

model <- model_load(commandArgs(TRUE)[[1]])
context <- context_create(model, n_ctx = 256L, n_threads = 1L)
ask <- \(i) generate(context, "Hello", max_tokens = 3L)
first <- ask(1)
outcomes <- parallel::mclapply(
  1:2,
  \(i) tryCatch(ask(i), llamaherd_error = \(e) class(e)[[1]]),
  mc.cores = 2L
)
cat("children:", unlist(outcomes), "\n")
cat(
  "parent:",
  if (identical(as.character(ask(1)), as.character(first))) {
    "same"
  } else {
    "different"
  },
  "\n"
)
