# Computes embeddings: Rscript embed.R JOB.json VECTORS.json
# The job has the fields model, texts (null is NA) and embed (arguments of embed_parallel).
files <- commandArgs(TRUE)
library(llamaherd)

job <- jsonlite::read_json(files[[1]])
texts <- vapply(
  job$texts,
  \(text) if (is.null(text)) NA_character_ else text,
  character(1)
)
vectors <- withCallingHandlers(
  do.call(embed_parallel, c(list(model_load(job$model), texts), job$embed)),
  llamaherd_warning_failed = \(cnd) invokeRestart("muffleWarning")
)
out <- list(
  vectors = matrix(vectors, nrow(vectors)),
  errors = attr(vectors, "errors"),
  stats = unclass(attr(vectors, "stats"))
)
writeLines(
  jsonlite::toJSON(out, na = "null", digits = NA),
  files[[2]],
  useBytes = TRUE
)
