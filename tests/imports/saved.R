# With no package attached, in a narrow terminal: results that other sessions saved.
source("tests/imports/common.R")
invisible(loadNamespace("llamaherd"))
alone()
stopifnot(!"package:utils" %in% search())
grDevices::pdf(NULL)
options(width = 40)

files <- list.files(
  Sys.getenv("LLAMAHERD_OBJECTS"),
  "[.]rds$",
  full.names = TRUE
)
verbs <- list(
  print = print,
  format = format,
  summary = summary,
  as.data.frame = as.data.frame,
  str = utils::str,
  head = \(x) print(utils::head(x, 2)),
  `[` = \(x) print(x[1]),
  plot = \(x) {
    tryCatch(
      graphics::plot(x),
      llamaherd_error_package = \(e) {
        stopifnot(grepl("ggplot2", conditionMessage(e)))
      },
      llamaherd_error = \(e) {
        if (!identical(e$code, reason_of_no_plot(x))) stop(e)
      }
    )
  }
)
# Fields are no labels; a call whose prompts all came from the journal has no times to plot.
reason_of_no_plot <- function(x) {
  if (identical(attr(x, "llamaherd")$codebook$type, "fields")) {
    return("no_labels")
  }
  if (inherits(x, c("llamaherd_result", "llamaherd_table"))) "nothing_to_plot"
}
# Base R has some of these for other classes only.
has_method <- function(verb, x) {
  verb %in%
    c("print", "format", "str") ||
    any(vapply(
      class(x),
      \(class) !is.null(utils::getS3method(verb, class, TRUE)),
      TRUE
    ))
}
steps <- list()
for (file in files) {
  x <- readRDS(file)
  for (verb in names(verbs)) {
    if (verb %in% c("head", "[") && !is.data.frame(x) && !is.character(x)) {
      next
    }
    if (verb %in% c("head", "[") || has_method(verb, x)) {
      step <- eval(bquote(function() verbs[[.(verb)]](readRDS(.(file)))))
      steps[[paste(basename(file), verb)]] <- step
    }
  }
}
run_each(steps)
