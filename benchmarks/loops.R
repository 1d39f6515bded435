# Answers calls for loops.py, one per line: each line of standard input is a JSON object with
# `kind`, `prompt` and `n`; each answer is an empty line.
#   Rscript benchmarks/loops.R MODEL N_THREADS

suppressPackageStartupMessages(library(llamaherd))

arguments <- commandArgs(trailingOnly = TRUE)
context <- context_create(
  model_load(arguments[1]),
  n_threads = as.integer(arguments[2])
)
labels <- c("good", "bad", "new", "old", "other")

calls <- list(
  generate = \(call) generate(context, call$prompt, max_tokens = call$n),
  classify = \(call) classify_parallel(context, call$prompt, labels)
)

input <- file("stdin", "r")
cat("ready\n")
while (length(line <- readLines(input, 1L)) > 0L) {
  call <- jsonlite::fromJSON(line)
  calls[[call$kind]](call)
  cat("\n")
}
