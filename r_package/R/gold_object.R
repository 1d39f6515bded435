# The class llamaherd_gold: a gold sample, as a data frame and in print.

#' @export
as.data.frame.llamaherd_gold <- function(x, ...) {
  # Programs read an empty cell of a CSV file as a missing code. An object that an older version
  # stored has no `none`.
  several <- isTRUE(x$design$several)
  shown <- \(codes) {
    if (several) replace(codes, codes %in% "", x$none %||% "none") else codes
  }
  columns <- list(
    id = x$ids,
    text = x$texts,
    model_label = shown(x$labels),
    inclusion_prob = x$probs
  )
  if (all(is.na(x$texts))) {
    columns$text <- NULL
  }
  columns$part <- x$parts
  new_frame(c(columns, lapply(x$codes, shown)), length(x$ids))
}

#' @export
print.llamaherd_gold <- function(x, ..., n = 6L) {
  show_lines(format(x, ...))
  frame <- as.data.frame(x)
  print_rows(frame, n, getOption("width"), c("id", "text", names(x$codes)))
  invisible(x)
}
