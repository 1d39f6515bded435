# Knits the vignettes of a folder, as on a computer without a model: vignettes.R FOLDER OUTPUT
arguments <- commandArgs(TRUE)
stopifnot(is.null(llamaherd::llamaherd_example_model()))
for (file in list.files(arguments[[1]], "[.]Rmd$", full.names = TRUE)) {
  knitr::opts_chunk$restore()
  output <- file.path(arguments[[2]], sub("[.]Rmd$", ".md", basename(file)))
  # With `error = FALSE` an error in a chunk ends the run. An error in inline code always ends it.
  knitr::opts_chunk$set(error = FALSE)
  knitr::knit(file, output, quiet = TRUE, envir = new.env(parent = globalenv()))
}
cat("vignettes: done\n")
