# Objects whose content later calls read from a second place: a JSON text or an object of Python. An
# element that a user changes would be printed, but the later calls would not use it. So assigning
# to the elements of these objects causes an error.

fixed <- function(x, class, ...) {
  structure(x, ..., class = c(class, "llamaherd_fixed"))
}

# How to get a changed object, by class.
fixed_hints <- c(
  llamaherd_codebook = "Create another one with {.fn codebook}, or write it with
    {.fn write_codebook}, edit the file and read it with {.fn read_codebook}.",
  llamaherd_gold = "To change codes, edit the columns of coders in
    {.code sheet <- as.data.frame(gold)} and read them: {.code read_gold(sheet, gold)}.",
  llamaherd_estimates = "To edit numbers, copy the table: {.code table <- as.data.frame(x)}.",
  llamaherd_validation = "To edit numbers, copy the table: {.code table <- as.data.frame(x)}.",
  llamaherd_scale = "Create another one with {.fn number_scale}.",
  llamaherd_model = "Load the model again with {.fn model_load}.",
  llamaherd_context = "Create another one with {.fn context_create}."
)

refuse_edit <- function(x) {
  class <- class(x)[[1]]
  hint <- if (class %in% names(fixed_hints)) {
    fixed_hints[[class]]
  } else {
    "Compute it again from the changed data."
  }
  abort(
    c("The elements of a {.cls {class}} cannot be changed.", i = hint),
    "argument",
    NULL
  )
}

#' @export
`$<-.llamaherd_fixed` <- function(x, name, value) refuse_edit(x)

#' @export
`[[<-.llamaherd_fixed` <- function(x, ..., value) refuse_edit(x)

#' @export
`[<-.llamaherd_fixed` <- function(x, ..., value) refuse_edit(x)

#' @export
`names<-.llamaherd_fixed` <- function(x, value) refuse_edit(x)

# Returns a fixed object with another element, for elements that its JSON does not contain.
with_element <- function(x, name, value) {
  class <- class(x)
  x <- unclass(x)
  x[[name]] <- value
  structure(x, class = class)
}

# The objects print as a page, which is also their summary: R's default would list their elements.
#' @export
summary.llamaherd_fixed <- function(object, ...) object
