# Receives SIGINT from test_r.py: Rscript python_in_r.R MODEL
# Calls Python's functions directly.
lh <- reticulate::import("llamaherd")
model <- lh$Model(commandArgs(TRUE)[[1]])
context <- lh$Context(model, n_threads = 1L)
params <- lh$SamplingParams(ignore_eos = TRUE)
ask <- function(n, progress = FALSE) {
  prompts <- as.list(paste(seq_len(n), "is"))
  lh$generate_parallel(
    context,
    prompts,
    max_tokens = 400L,
    params = params,
    progress = progress
  )
}
invisible(ask(2L))
# A function of Python prints a line while the call runs.
report <- reticulate::py_run_string(
  "
import os
told = []
def report(progress):
    if progress.n_generated_tokens > 100 and not told:
        told.append(True)
        os.write(1, b'computing\\n')
"
)$report
end <- tryCatch(
  {
    ask(5000L, report)
    "finished"
  },
  interrupt = \(cnd) "interrupted"
)
cat(end, "\n")
cat(length(ask(3L)), "answers\n")
