# Rscript journal_paths.R MODEL PATH...: prints R's messages for reading and writing each path.
arguments <- commandArgs(TRUE)
library(llamaherd)
context <- context_create(model_load(arguments[[1]]), n_ctx = 256L)
outcome <- function(expression) {
  tryCatch(
    {
      force(expression)
      "used"
    },
    error = \(condition) {
      # because cli breaks lines
      message <- gsub("\\s+", " ", conditionMessage(condition))
      paste0(class(condition)[[1]], ": ", message)
    }
  )
}
for (path in c(arguments[-1], strrep("n", 1e5))) {
  cat("read ", outcome(journal_read(path)), "\n", sep = "")
  cat(
    "write ",
    outcome(generate_parallel(context, "a", max_tokens = 1, journal = path)),
    "\n",
    sep = ""
  )
}
