# The class llamaherd_gold: a gold sample, as a data frame and in print.

new_gold <- function(value) {
  coders <- as_text(value[["coders"]])
  codes <- lapply(value[["codes"]], as_text)
  fixed(
    list(
      rows = as.integer(unlist(value[["rows"]]) + 1),
      ids = as_text(value[["ids"]]),
      texts = as_text(value[["texts"]]),
      labels = as_text(value[["labels"]]),
      probs = as.double(unlist(value[["probs"]])),
      all_probs = as.double(unlist(value[["all_probs"]])),
      strata = as.integer(unlist(value[["strata"]]) + 1),
      names = as_text(value[["names"]]),
      codes = rlang::set_names(codes, coders),
      gold = as_text(value[["gold"]]),
      parts = if (!is.null(value[["parts"]])) as_text(value[["parts"]]),
      none = value[["none"]],
      design = value[["design"]],
      history = if (!is.null(value[["history"]])) history_of(value[["history"]])
    ),
    json = value[["json"]],
    class = "llamaherd_gold"
  )
}

# Returns a data frame with a row for each wave of a sample.
history_of <- function(value) {
  numbers <- lapply(value[c("n", "N", "seed", "n_coded")], numbers_of)
  columns <- c(
    list(wave = as.integer(unlist(value[["wave"]])), kind = as_text(value[["kind"]])),
    numbers
  )
  new_frame(columns, length(columns$wave))
}

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
format.llamaherd_gold <- function(x, ...) {
  n_coded <- sum(!is.na(x$gold))
  n_coders <- length(x$codes)
  range <- format(range(x$probs), digits = 3, trim = TRUE)
  c(
    sprintf(
      "<llamaherd_gold> %d of %d %s, drawn %s",
      length(x$ids),
      length(x$all_probs),
      plural(length(x$all_probs), "text"),
      c(
        simple = "simply",
        stratified = "in strata",
        uncertainty = "by uncertainty",
        weights = "by weights",
        given = "by the probabilities given",
        waves = "in waves of different designs"
      )[[x$design$kind]]
    ),
    sprintf(
      "inclusion probabilities from %s to %s, seed %.0f",
      range[[1]],
      range[[2]],
      x$design$seed
    ),
    if (isTRUE(nrow(x$history) > 1)) {
      sprintf("waves of %s texts", paste(x$history$n, collapse = ", "))
    },
    sprintf("%d coded, by %d %s", n_coded, n_coders, plural(n_coders, "coder"))
  )
}

#' @export
print.llamaherd_gold <- function(x, ..., n = 6L) {
  show_lines(format(x, ...))
  frame <- as.data.frame(x)
  print_rows(frame, n, getOption("width"), c("id", "text", names(x$codes)))
  invisible(x)
}
