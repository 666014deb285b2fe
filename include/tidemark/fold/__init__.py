"""What changes come to: pure DataFrame to DataFrame. Knows no lake, no format and no storage."""
