# Prompts of explore(): converts prompts, samples and truth from all accepted forms.

# Returns list(prompts, sample_id, truth) of one model.
explore_input <- function(spec, error_call) {
  x <- spec$prompts
  if (is.function(x)) {
    x <- x(spec)
  }
  input <- if (is.data.frame(x) && "prompt" %in% names(x)) {
    list(prompts = x$prompt, sample_id = x$sample_id, truth = x$truth)
  } else if (is.list(x) && any(c("prompts", "prompt") %in% names(x))) {
    list(prompts = x$prompts %||% x$prompt, sample_id = x$sample_id, truth = x$truth)
  } else if (is.list(x)) {
    from_template(x, error_call)
  } else {
    list(prompts = x)
  }
  if (is.factor(input$prompts)) {
    input$prompts <- as.character(input$prompts)
  }
  if (!is.character(input$prompts)) {
    must <- "a character vector, a data frame with a column prompt, a template or a function"
    abort_argument("prompts", must, x, error_call)
  }
  n <- length(input$prompts)
  for (name in c("sample_id", "truth")) {
    if (!is.null(input[[name]]) && length(input[[name]]) != n) {
      abort(
        "{.field {name}} must be as long as the prompts ({n}), not {length(input[[name]])}.",
        "argument",
        error_call
      )
    }
  }
  list(
    prompts = unname(input$prompts),
    sample_id = unname(input$sample_id %||% seq_len(n)),
    truth = if (!is.null(input$truth)) value_text(input$truth)
  )
}

# ---- templates -------------------------------------------------------------------------

not_shown <- c("sample_id", "truth", "format")

from_template <- function(x, error_call) {
  if (!rlang::is_named(x)) {
    abort_argument("prompts", "a template with a name for each section", x, error_call)
  }
  x <- as.list(x)
  shown <- x[setdiff(names(x), not_shown)]
  vectors <- shown[vapply(shown, is.atomic, NA)]
  n <- if (is.null(x$sample_id)) max(lengths(vectors), 1L) else length(x$sample_id)
  sections <- Map(
    \(name, value) paste0("## ", name, "\n", rep_len(section(value, n, name), n)),
    names(shown),
    shown
  )
  prompts <- if (length(sections) > 0) {
    do.call(paste, c(unname(sections), sep = "\n\n"))
  } else {
    character()
  }
  list(prompts = prompts, sample_id = x$sample_id, truth = x$truth)
}

# Returns the texts of a section: one text per sample, or one text for all samples.
section <- function(value, n, title) {
  if (is.factor(value)) {
    value <- as.character(value)
  }
  if (is.data.frame(value)) {
    rows <- lapply(seq_len(nrow(value)), \(i) as.list(value[i, , drop = FALSE]))
    return(blocks(rows, title))
  }
  if (is.list(value)) {
    is_block <- vapply(value, \(x) is.list(x) && rlang::is_named(x), NA)
    if (length(value) > 0 && all(is_block) && is.null(names(value))) {
      return(blocks(value, title))
    }
    parts <- Map(
      \(name, x) paste0("### ", name, "\n", section(x, 0L, name)),
      rlang::names2(value),
      value
    )
    return(paste(unlist(parts), collapse = "\n\n"))
  }
  value <- enc2utf8(value_text(value))
  if (length(value) == n || length(value) == 1) {
    return(value)
  }
  paste0("- ", value, collapse = "\n")
}

# Elements of "Examples" become "Example 1", "Example 2" and so on.
blocks <- function(rows, title) {
  one <- sub("s$", "", title)
  texts <- vapply(
    seq_along(rows),
    \(i) {
      row <- rows[[i]]
      cells <- vapply(row, \(x) paste(value_text(x), collapse = ", "), "")
      paste0(
        "### ",
        one,
        " ",
        i,
        "\n",
        paste0("- ", names(row), ": ", cells, collapse = "\n")
      )
    },
    ""
  )
  paste(texts, collapse = "\n\n")
}
