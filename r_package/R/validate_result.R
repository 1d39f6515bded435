# The result of validate(): creates its object, with tables of agreement and of labels, and prints
# it.

new_validation <- function(found, coded, options) {
  labels <- as_text(found$labels)
  confusion <- if (!found$several) count_table(found$confusion, labels)
  texts <- c("part", "measure", "label")
  columns <- c(
    lapply(found$table[texts], as_text),
    lapply(found$table[c("value", "low", "high")], numbers_of),
    list(n = as.integer(unlist(found$table$n)))
  )
  wrong <- found$wrong
  row <- as.integer(unlist(wrong$row))
  wrong <- list(
    row = row,
    label = as_text(wrong$label),
    truth = as_text(wrong$truth),
    prob = numbers_of(wrong$prob)
  )
  wrong$text <- if (!is.null(coded$texts)) coded$texts[row]
  table <- new_frame(columns, length(columns$n))
  fixed(
    list(
      n_texts = found$n_texts,
      n_gold = found$n_gold,
      coders = as_text(found$coders),
      is_weighted = found$is_weighted,
      several = found$several,
      scale = found$scale,
      level = options$level,
      table = table,
      labels = label_frame(table, labels, found),
      model_agreement = from_python(found$model_agreement),
      coder_agreement = from_python(found$coder_agreement),
      label_agreement = from_python(found$label_agreement),
      pairs = from_python(found$pairs),
      confusion = list(vs_gold = list(model = confusion), pairwise = NULL),
      reliability = reliability_of(from_python(found$model_agreement)),
      bins = if (!is.null(found$bins)) as.data.frame(lapply(found$bins, numbers_of)),
      coverage = if (!is.null(found$coverage)) {
        new_coverage(found$coverage, options$level)
      },
      prob = if (!is.null(found$confidence)) numbers_of(found$confidence),
      wrong = new_frame(wrong, length(row)),
      warnings = as_text(found$warnings),
      page = as_text(found$page),
      json = found$json
    ),
    class = "llamaherd_validation"
  )
}

# Returns a data frame with one row per label.
label_frame <- function(table, labels, found) {
  counts <- matrix(as.integer(unlist(found$counts)), ncol = 2, byrow = TRUE)
  columns <- list(
    label = labels,
    n_gold = counts[, 1],
    n_model = counts[, 2],
    share = numbers_of(found$shares)
  )
  for (name in c("precision", "recall", "f1")) {
    of <- table[table$part == "label" & table$measure == name, ]
    columns[[name]] <- of$value
    columns[[paste0(name, "_low")]] <- of$low
    columns[[paste0(name, "_high")]] <- of$high
  }
  new_frame(columns, length(labels))
}

# Returns the reliability of model and people in the format of intercoder_reliability(), which
# compares two models.
reliability_of <- function(frame) {
  frame <- as.data.frame(frame %||% data.frame())
  kappa <- frame[frame$coefficient == "kappa", ]
  list(
    cohen = data.frame(
      model_a = "model",
      model_b = "people",
      kappa = kappa$value,
      observed = kappa$observed,
      expected = kappa$expected
    ),
    krippendorff = list(alpha = frame$value[frame$coefficient == "alpha"])
  )
}

#' @export
format.llamaherd_validation <- function(x, ...) x$page

# Wraps the warnings of a page, which begin with "! ", to the width of the console; the next lines
# of a warning begin with spaces.
warnings_wrapped <- function(page) {
  first <- startsWith(page, "! ")
  at <- cumsum(first)
  is_warning <- first | (at > 0 & startsWith(page, "  "))
  texts <- tapply(trimws(page[is_warning]), at[is_warning], paste, collapse = " ")
  c(page[!is_warning], console_lines(texts))
}

#' @export
print.llamaherd_validation <- function(x, ...) {
  show_lines(warnings_wrapped(format(x, ...)))
  invisible(x)
}

#' @export
as.data.frame.llamaherd_validation <- function(x, ...) x$table
