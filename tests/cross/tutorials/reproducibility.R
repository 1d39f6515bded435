# The same answers twice, and a log of the run, in a script for localLLM.
library(llamaherd)

log_path <- commandArgs(TRUE)[[1]]
document_start(path = log_path, metadata = list(project = "tutorial"))
model <- model_load(Sys.getenv("LLAMAHERD_TEST_SMOLLM2"), verbosity = 0L)
context <- context_create(model, n_ctx = 2048L, n_seq_max = 4L)
prompts <- c("The sky is", "Grass is", "Snow is")
once <- generate_parallel(
  context,
  prompts,
  max_tokens = 10L,
  temperature = 0.7,
  seed = 7L
)
again <- generate_parallel(
  context,
  prompts,
  max_tokens = 10L,
  temperature = 0.7,
  seed = 7L
)
stopifnot(
  identical(as.vector(once), as.vector(again)),
  identical(attr(once, "hashes"), attr(again, "hashes"))
)
single <- generate(context, prompts[[1]], max_tokens = 10L, seed = 7L)
stopifnot(nchar(attr(single, "hashes")$output) == 64)
answer <- quick_llama(
  "Name a river.",
  model$path,
  max_tokens = 5L,
  verbosity = -1L
)
log <- document_end()
lines <- readLines(log_path)
stopifnot(
  nchar(attr(log, "hash")) == 64,
  any(grepl("generate_parallel", lines)),
  any(grepl("quick_llama", lines)),
  any(grepl("\"project\": \"tutorial\"", lines))
)
hashes <- attr(once, "hashes")
cat("input", hashes$input[[1]], "\n")
cat("output", hashes$output[[1]], "\n")
cat("text", jsonlite::toJSON(once[[1]], auto_unbox = TRUE), "\n")
cat("reproducibility: done\n")
