# Inputs of validate(): the model's labels and probabilities, the texts that were coded, and human
# codes.

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

# Returns the labels of a model: a list with `labels`, `names` (all possible labels), `prob`,
# `probs` (a matrix), `texts` and the data frame itself.
coded_parts <- function(x, label_col, is_default, prob) {
  if (!is.data.frame(x)) {
    if (!is.atomic(x) || is.null(x)) {
      must <- "a data frame, or a vector with a label for each text"
      abort_argument("annotations", must, x)
    }
    prob <- coded_prob(NULL, prob, length(x))
    return(list(labels = x, prob = prob, several = FALSE))
  }
  check_coded_rows(x, "annotations")
  info <- if (inherits(x, "llamaherd_coded")) attr(x, "llamaherd")
  label <- if (is_default && !is.null(info$label)) info$label else check_string(label_col)
  if (!label %in% names(x)) {
    abort_column("label_col", label, x, spans_hint(x))
  }
  is_ours <- identical(label, info$label)
  names <- if (is_ours && length(info$names) > 0) as.character(info$names)
  probs <- if (!is.null(names)) all_probs(x)
  if (is.null(prob) && is_ours && is.null(probs)) {
    prob <- unname(info$columns["prob"])
    prob <- if (!is.null(prob) && prob %in% names(x)) prob
  }
  list(
    labels = x[[label]],
    label_name = label,
    names = names,
    prob = coded_prob(x, prob, nrow(x)),
    probs = if (is.null(prob) && !is.null(probs)) unname(do.call(cbind, probs)),
    texts = if (is_ours && isTRUE(info$text %in% names(x))) as.character(x[[info$text]]),
    codebook = if (is_ours) info$codebook$content,
    expected = if (is_ours && isTRUE(info$codebook$is_numeric)) {
      expected_of(x, info$columns)
    },
    several = is_ours && identical(info$codebook$type, "multiple"),
    scale = if (is_ours && !identical(info$codebook$measured, "nominal")) {
      info$codebook$measured
    },
    frame = x
  )
}

# Returns expected values of labels that are numbers; NULL if their column does not exist.
expected_of <- function(x, columns) {
  name <- unname(columns["mean"])
  if (!is.na(name) && name %in% names(x)) as.double(x[[name]])
}

coded_prob <- function(frame, prob, n) {
  if (is.null(prob)) {
    return(NULL)
  }
  if (is.character(prob) && length(prob) == 1 && prob %in% names(frame)) {
    prob <- frame[[prob]]
  }
  if (!is.numeric(prob) || length(prob) != n) {
    must <- sprintf("the name of a column, or a number for each of %d texts", n)
    abort_argument("prob", must, prob)
  }
  as.double(prob)
}

# Converts probabilities for Python: a row with the probabilities of all labels per text, or only
# the probability of the text's label.
coded_probs <- function(coded, levels) {
  if (!is.null(coded$probs) && length(levels) == ncol(coded$probs)) {
    return(rows_of(coded$probs))
  }
  if (!is.null(coded$probs)) {
    at <- cbind(seq_along(coded$labels), match(coded$labels, coded$names))
    coded$prob <- coded$probs[at]
  }
  if (!is.null(coded$prob)) as_py_list(check_numeric(coded$prob))
}

# Returns human codes: a list with `codes`, a list of vectors; `coders`, their names; and `json`,
# the JSON of a gold sample.
gold_parts <- function(gold, coded, truth_col) {
  n <- length(coded$labels)
  if (inherits(gold, "llamaherd_gold")) {
    return(gold_sample_parts(gold))
  }
  if (identical(gold, coded$label_name)) {
    must <- "codes of people"
    hint <- "This is the column of the model's labels."
    abort_argument("gold", must, gold, hint = hint)
  }
  if (is.null(gold) && !all(check_string(truth_col) %in% names(coded$frame))) {
    must <- "codes of people, such as a coded gold_sample()"
    hint <- sprintf("There is no column `%s` either, which `truth_col` names.", truth_col)
    abort_argument("gold", must, gold, hint = hint)
  }
  gold <- gold %||% check_string(truth_col)
  if (is.character(gold) && !is.null(coded$frame) && all(gold %in% names(coded$frame))) {
    check_single(coded$frame, gold)
    gold <- rlang::set_names(lapply(gold, \(name) coded$frame[[name]]), gold)
  } else if (is.data.frame(gold)) {
    gold <- as.list(gold)
  } else if (is.atomic(gold)) {
    gold <- list("coder 1" = gold)
  }
  if (
    !all(vapply(gold, is.atomic, TRUE)) || !all(lengths(gold) == n) || length(gold) == 0
  ) {
    must <- sprintf("codes of people, one or NA for each of %d texts, or columns", n)
    codes <- unlist(gold, use.names = FALSE)
    abort_argument("gold", must, codes, hint = column_hint(codes, coded$frame))
  }
  names <- rlang::names2(gold)
  list(
    codes = unname(gold),
    coders = ifelse(nzchar(names), names, paste("coder", seq_along(gold))),
    several = FALSE
  )
}

# Returns the texts of the rows, even if annotate_texts() did not make the labels.
texts_to_compare <- function(coded, gold) {
  texts <- coded$texts
  if (is.null(texts) && isTRUE(gold$text %in% names(coded$frame))) {
    texts <- as.character(coded$frame[[gold$text]])
  }
  if (!is.null(texts)) text_list(as_utf8(texts))
}

gold_sample_parts <- function(gold) {
  list(
    json = check_gold(gold),
    codes = unname(gold$codes),
    coders = names(gold$codes),
    several = isTRUE(gold$design$several),
    text = gold$design$text,
    design = gold$design
  )
}
