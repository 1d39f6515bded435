# Labels the texts of a job with its codebook: Rscript coding.R JOB.json CODED.json
# The job has the fields model, codebook (a YAML file), texts and arguments of annotate_texts.
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]], simplifyVector = TRUE)
context <- context_create(model_load(job$model), n_threads = 1L)
codebook <- read_codebook(job$codebook)
data <- data.frame(text = job$texts)
coded <- withCallingHandlers(
  do.call(
    annotate_texts,
    c(list(data, quote(text), codebook, context), job$arguments)
  ),
  llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
)
several <- robustness(data, text, codebook, context, orders = 2, n_texts = 4)
results <- list(
  coded = as.data.frame(coded),
  run = attr(coded, "llamaherd")$run_json,
  hash = codebook$hash,
  preview = unclass(prompt_preview(codebook, "x", context)),
  labels = several$labels,
  pairwise = several$pairwise
)
json <- jsonlite::toJSON(
  results,
  dataframe = "columns",
  na = "null",
  digits = NA
)
writeBin(charToRaw(enc2utf8(json)), files[[2]])
