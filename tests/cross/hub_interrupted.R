# Downloads a model until Ctrl-C: Rscript hub_interrupted.R SOURCE
library(llamaherd)

source <- commandArgs(TRUE)[[1]]
caught <- tryCatch(
  model_load(source, show_progress = FALSE),
  interrupt = \(cnd) "caught"
)
stopifnot(identical(caught, "caught"))
cat("caught\n")
readLines(file("stdin"), 1L)
model <- model_load(source, show_progress = FALSE)
cat("then", basename(model$path), "\n")
