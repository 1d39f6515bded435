# Is sent SIGINT by test_r.py: Rscript python_in_r.R MODEL. Uses Python's own functions.
lh <- reticulate::import("llamaherd")
model <- lh$Model(commandArgs(TRUE)[[1]])
context <- lh$Context(model, n_threads = 1L)
params <- lh$SamplingParams(ignore_eos = TRUE)
ask <- function(n) {
  prompts <- as.list(paste(seq_len(n), "is"))
  lh$generate_parallel(context, prompts, max_tokens = 400L, params = params)
}
invisible(ask(2L))
cat("ready\n")
end <- tryCatch(
  {
    ask(5000L)
    "finished"
  },
  interrupt = \(cnd) "interrupted"
)
cat(end, "\n")
cat(length(ask(3L)), "answers\n")
