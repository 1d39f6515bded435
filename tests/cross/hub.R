# Downloads models from a hub in R: Rscript hub.R OWNER/REPO GATED/REPO TOKEN, with HF_ENDPOINT and
# LLAMAHERD_CACHE_DIR set.
library(llamaherd)

arguments <- commandArgs(TRUE)
open <- paste0("hf:", arguments[[1]])
gated <- paste0("hf:", arguments[[2]])
stopifnot(nrow(suppressMessages(list_cached_models())) == 0)
model <- model_load(open, show_progress = FALSE)
print(model)
path <- download_model(open, show_progress = FALSE)
models <- list_cached_models()
stopifnot(
  models$path == path,
  model$path == path,
  startsWith(models$source, open),
  get_model_cache_dir() == Sys.getenv("LLAMAHERD_CACHE_DIR")
)
close(model)

# Python already runs. Variables that the session sets now are passed to it nevertheless.
failure <- tryCatch(model_load(gated), llamaherd_error_model = conditionMessage)
set_hf_token(arguments[[3]])
model <- model_load(gated, verbosity = -1)
wrong <- tryCatch(
  model_load(gated, hf_token = "hf_wrong_one", force_redownload = TRUE),
  llamaherd_error_model = conditionMessage
)
stopifnot(!grepl("hf_wrong_one", wrong), grepl("no\\s+access", wrong))
cat("gated:", gsub("\\s+", " ", failure), "\n")

best <- model_load(open, optimize = TRUE, show_progress = FALSE)
stopifnot(best$path == model_load(open, optimize = TRUE, verbosity = -1)$path)
cat("hub: done\n")
