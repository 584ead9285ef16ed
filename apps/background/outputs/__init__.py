"""What the application writes: videos, masks, tables, events and COCO annotations."""
