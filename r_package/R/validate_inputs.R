# Inputs of validate(): a data frame with the labels of a model, and human codes.

# Refuses validate(need(...)), which calls the function of Shiny that this package masks if it is
# attached after Shiny. `annotations` is the unevaluated argument.
check_not_shiny <- function(annotations) {
  if (rlang::is_call(annotations, "need", ns = c("", "shiny"))) {
    abort(c(
      "{.code validate(need(...))} is a call for Shiny, but this is {.fn llamaherd::validate}.",
      i = "Write {.code shiny::validate(need(...))}, or attach this package by
           {.code library(llamaherd, exclude = \"validate\")}."
    ))
  }
}

# Returns a data frame; labels in a vector become its column "label".
labels_frame <- function(x) {
  if (is.data.frame(x)) {
    return(check_data(x, "annotations"))
  }
  if (!is.atomic(x) || is.null(x)) {
    must <- "a data frame, or a vector with a label for each text"
    abort_argument("annotations", must, x)
  }
  new_frame(list(label = x), length(x))
}

# Returns the data frame for Python, with what annotate_texts() recorded of the labels, if they are
# its labels: `known`, see coded_columns().
labels_for_python <- function(data, label, known, gold, uses) {
  text <- known$text %||% intersect(gold$design$text, names(data))
  probs <- if (length(known) > 0) names(all_probs(data))
  uses <- c(label, text, probs, known$mean, gold_columns(gold, data), uses)
  frame_for_python(
    data,
    uses,
    label,
    known$codebook,
    names = as_py_list(as_text(known$names)),
    probs = as_py_list(probs),
    text = if (length(text) > 0) text,
    mean = known$mean
  )
}

# Returns human codes, a vector for each coder. Columns of the data have the attribute "truth",
# their names.
human_codes <- function(gold, annotations, truth_col) {
  columns <- if (is.data.frame(annotations)) names(annotations)
  if (is.null(gold) && !all(check_string(truth_col) %in% columns)) {
    must <- "codes of people, such as a coded gold_sample()"
    hint <- sprintf("There is no column `%s` either, which `truth_col` names.", truth_col)
    abort_argument("gold", must, gold, hint = hint)
  }
  gold <- gold %||% truth_col
  if (inherits(gold, "llamaherd_gold")) {
    return(gold$codes)
  }
  if (is.character(gold) && !is.null(columns) && all(gold %in% columns)) {
    check_single(annotations, gold)
    return(structure(lapply(gold, \(name) annotations[[name]]), truth = gold))
  }
  if (rlang::is_string(gold) && NROW(annotations) != 1) {
    abort_argument("gold", "codes of people", gold, hint = column_hint(gold, annotations))
  }
  gold <- if (is.atomic(gold)) list(gold) else as.list(gold)
  if (!all(vapply(gold, is.atomic, TRUE)) || length(gold) == 0) {
    abort_argument("gold", "codes of people, or columns of them", gold)
  }
  names <- rlang::names2(gold)
  rlang::set_names(gold, ifelse(nzchar(names), names, paste("coder", seq_along(gold))))
}
