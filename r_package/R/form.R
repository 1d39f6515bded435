# The one form in which results come from Python: typed parts, see forms.py. Vectors, tables and
# matrices become R's; an object becomes a list of its parts with the printed page, and the methods
# here serve the objects of all classes.

# Converts a part; other values stay as reticulate converted them.
from_python <- function(part) {
  type <- if (is.list(part)) part[["type"]]
  if (is.null(type)) {
    return(part)
  }
  switch(
    type,
    table = new_data(part),
    list = named_parts(part[["parts"]]),
    matrix = matrix(
      numbers_of(part[["values"]]),
      ncol = length(part[["columns"]]),
      byrow = TRUE,
      dimnames = list(as_text(part[["rows"]]), as_text(part[["columns"]]))
    ),
    value = part[["value"]],
    json = jsonlite::parse_json(part[["value"]]),
    object = new_object(part),
    codebook = new_codebook(part[["value"]]),
    ended = with_running(from_python(part[["finished"]]), from_python(part[["running"]])),
    new_vector(part)
  )
}

# Returns a data frame, perhaps of a class of this package with attributes.
new_data <- function(part) {
  frame <- new_frame(named_parts(part[["columns"]]), as.integer(part[["n"]]))
  if (is.null(part[["class"]])) {
    return(frame)
  }
  class <- c(part[["class"]], "data.frame")
  rlang::exec(structure, frame, class = class, !!!named_parts(part[["attributes"]]))
}

named_parts <- function(parts) {
  rlang::set_names(
    lapply(parts, from_python),
    vapply(parts, \(part) part[["name"]], "")
  )
}

new_vector <- function(part) {
  values <- part[["values"]]
  vector <- switch(
    part[["type"]],
    text = as_text(values),
    number = numbers_of(values),
    integer = as.integer(numbers_of(values)),
    flag = vapply(as.list(values), \(value) value %||% NA, NA),
    date = as.Date(as_text(values)),
    time = as_time(values),
    factor = {
      levels <- as_text(part[["levels"]])
      factor(levels[replace(values, values == 0, NA)], levels)
    }
  )
  if (is.null(part[["names"]])) {
    vector
  } else {
    rlang::set_names(vector, as_text(part[["names"]]))
  }
}

# Later calls send the JSON of an object back to Python, so that its elements cannot be changed.
new_object <- function(part) {
  structure(
    c(
      named_parts(part[["parts"]]),
      list(page = as_text(part[["page"]])),
      list(json = part[["json"]])
    ),
    class = c(
      part[["class"]],
      if (!is.null(part[["json"]])) "llamaherd_fixed",
      "llamaherd_object"
    )
  )
}

#' @export
format.llamaherd_object <- function(x, ...) x$page

#' @export
print.llamaherd_object <- function(x, ...) {
  show_lines(format(x))
  invisible(x)
}

#' @export
summary.llamaherd_object <- function(object, ...) object

#' @export
as.data.frame.llamaherd_object <- function(x, ...) {
  is_table <- vapply(unclass(x), is.data.frame, NA)
  x[[which(is_table)[[1]]]]
}

#' @exportS3Method tibble::as_tibble
as_tibble.llamaherd_object <- function(x, ...) tibble::as_tibble(as.data.frame(x), ...)
